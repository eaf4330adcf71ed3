/** An app with one run and one dataset, for tests that send requests to every route. */

import { testConfig } from "../runs/config_testing.ts";
import type { Plan } from "../runs/plan/plan.ts";
import { TestFleet } from "../runs/fleet/fleet_testing.ts";
import { JobPool } from "../runs/jobs/job_pool.ts";
import type { App } from "./app.ts";
import { type Given, type Sent, testApp, testRequest } from "./app_testing.ts";
import type { Route } from "./routing/route.ts";
import { metrics, runsOf, storedRun, writeEvents } from "./runs_testing.ts";

export interface PopulatedApp {
  app: App;
  logged: Record<string, unknown>[];
  /** A folder under `path_roots` with the file `model.gguf`. */
  root: string;
  /** Sends a request, and checks that the route declares the answer; of an endless one only the status is kept. */
  send(route: Route, target: string, given: Given): Promise<Sent>;
  /** The route's path with the ids of what there is; other parts are names that a run may have. */
  pathOf(route: Route): string;
}

/** Runs a test with such an app. @param toml Keys of the server's configuration. */
export async function withPopulatedApp(
  toml: string,
  body: (populated: PopulatedApp) => Promise<void>,
): Promise<void> {
  const folder = await Deno.realPath(await Deno.makeTempDir()), root = `${folder}/root`;
  const fleet = await TestFleet.open({ folder: `${folder}/fleet` });
  const jobs = new JobPool({ entry_url: new URL("../cli.ts", import.meta.url).href });
  try {
    const plan = { config: testConfig(folder), schedule: { updates: 1 } } as unknown as Plan;
    const { id } = await fleet.create({ updates: 1 }, { plan });
    await fleet.until(fleet.fleet.get(id)!, "completed");
    const run = storedRun(folder, id);
    await writeEvents(run.directory!, [metrics(1, { "reward/mean": 0.5 })]);
    await Deno.mkdir(root);
    await Deno.writeTextFile(`${root}/model.gguf`, "GGUF");
    const keys = `data_dir = ${JSON.stringify(`${folder}/data`)}\npath_roots = [${JSON.stringify(root)}]\n`;
    const { app, send, logged } = testApp({
      toml: `${keys}${toml}`,
      ...{ runs: runsOf(run), fleet: fleet.fleet, changes: fleet.relayed, jobs },
    });
    const authorization = /auth_token = "(.*)"/.exec(toml)?.[1];
    const uploaded = await send("/v1/datasets", {
      method: "POST",
      body: '{"text":"a"}\n',
      headers: {
        "content-type": "application/x-ndjson",
        authorization: authorization && `Bearer ${authorization}`,
      },
    });
    await body({
      ...{ app, logged, root },
      async send({ answers }, target, given) {
        const is_endless = "text/event-stream" in (answers[200]?.content ?? {});
        return is_endless ? await start(app, target, given) : await send(target, given);
      },
      pathOf: ({ path }) =>
        path.replaceAll(/\{(\w+)\}/g, (_, name) => {
          if (name === "name") return "events";
          return name !== "id" ? "0" : path.startsWith("/v1/datasets/") ? uploaded.json.id : id;
        }),
    });
  } finally {
    await jobs.close();
    await fleet.close();
    await Deno.remove(folder, { recursive: true });
  }
}

/** The status and headers of an answer whose body may not end. */
async function start(app: App, target: string, given: Given): Promise<Sent> {
  const { status, headers, body } = await app.handle(...testRequest(target, given));
  await body?.cancel();
  return { status, headers: Object.fromEntries(headers), body: "", json: null };
}
