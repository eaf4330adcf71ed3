/** An app with one run and one dataset, for tests that send requests to every route. Its texts name its files. */

import { systemClock } from "../core/clock.ts";
import { testConfig } from "../runs/config_testing.ts";
import { logPathOf } from "../runs/directory/run_directory.ts";
import { TestFleet, testPlan } from "../runs/fleet/fleet_testing.ts";
import { JobPool } from "../runs/jobs/job_pool.ts";
import { fullPlan } from "../runs/plan/plan_serving.ts";
import type { EventData } from "../runs/record/event.ts";
import { Serving } from "../runs/serving/serving.ts";
import { sampleGroups, writeObserved } from "../runs/views/observed_testing.ts";
import type { App } from "./app.ts";
import { type Given, type Sent, testApp, type TestAppOptions, testRequest } from "./app_testing.ts";
import type { Route } from "./routing/route.ts";
import { metrics, runsOf, storedRun, writeEvents } from "./runs_testing.ts";

export interface PopulatedApp {
  app: App;
  logged: Record<string, unknown>[];
  /** The lines of its requests. */
  requests: Record<string, unknown>[];
  /** The folder in which all of its files lie. */
  folder: string;
  /** A folder under `path_roots` with the file `model.gguf`, which cannot be read, and the data of a run. */
  root: string;
  /** Sends a request, and checks that the route declares the answer; of an endless one only the status is kept. */
  send(route: Route, target: string, given: Given): Promise<Sent>;
  /** The route's path with the names of what there is. */
  pathOf(route: Route): string;
  /** Another app with the same run and dataset. */
  again(toml: string): Pick<PopulatedApp, "send" | "requests">;
}

interface PopulatedOptions {
  serving?: boolean;
}

/** What there is besides the run and the dataset. */
const NAMES: Readonly<Record<string, string>> = {
  ...{ name: "events", kind: "conflict", scenario: "s0" },
  ...{ n: "1", update: "1", group: "0", member: "0" },
};

/** Events whose texts name files of the machine. */
function eventsOf(folder: string): EventData[] {
  const rate = { rate: 0, low: 0, high: 1, n: 1, attempts: 1 };
  return [
    metrics(1, { "reward/mean": 0.5 }),
    {
      ...{
        kind: "evaluation",
        n: 1,
        update: 1,
        pass_rate: rate,
        reward_mean: 0,
        loss: null,
        perplexity: null,
      },
      ...{ rows: null, failed: { environment_failed: 1 } },
      failure: { scenario: "s0", boundary: "environment", message: `Cannot start ${folder}/grade: no` },
      scenarios: [{
        scenario: "s0",
        attempts: 1,
        passes: 0,
        rewards: [null],
        stop_reasons: ["environment_failed"],
      }],
    },
    { kind: "log", level: "info", message: `wrote ${folder}/adapter.gguf` },
    {
      ...{ kind: "artifact", name: "adapter", path: `${folder}/adapter.gguf`, size_bytes: 1, sha256: "" },
      update: 1,
    },
  ];
}

/** A run whose files are all there. */
async function writtenRun(folder: string, id: string) {
  const run = storedRun(folder, id), directory = run.directory!;
  await writeEvents(directory, eventsOf(folder));
  await Deno.writeTextFile(logPathOf(directory), `artifact adapter: ${folder}/adapter.gguf, 1 bytes\n`);
  await writeObserved(run.trajectories!, {
    updates: 1,
    groups(update) {
      const groups = sampleGroups(update), failed = groups[0]!.members[3]!;
      failed.failure = { boundary: "tool", message: `Cannot start ${folder}/tool: no` };
      const best = groups[0]!.members[0]!, printed = `File "${folder}/data/x.py", line 1`;
      best.turns[0]!.calls[0]!.result = printed;
      best.messages[2]!.content = printed;
      best.verification!.output = printed;
      return groups;
    },
  });
  return run;
}

/** Runs a test with such an app. @param toml Keys of the server's configuration. */
export async function withPopulatedApp(
  toml: string,
  body: (populated: PopulatedApp) => Promise<void>,
  { serving = false }: PopulatedOptions = {},
): Promise<void> {
  const folder = await Deno.realPath(await Deno.makeTempDir()), root = `${folder}/my models`;
  const fleet = await TestFleet.open({ folder: `${folder}/fleet` });
  const jobs = new JobPool({ entry_url: new URL("../cli.ts", import.meta.url).href });
  try {
    const plan = testPlan(testConfig(folder), 1);
    const { id } = await fleet.create({ updates: 1 }, { plan });
    await fleet.until(fleet.fleet.get(id)!, "completed");
    const run = await writtenRun(folder, id);
    await Deno.mkdir(root);
    await Deno.writeTextFile(`${root}/model.gguf`, "GGUF");
    await Deno.writeTextFile(`${root}/rows.jsonl`, '{"text":"a"}\n');
    const keys = `data_dir = ${JSON.stringify(`${folder}/data`)}\npath_roots = [${JSON.stringify(root)}]\n`;
    const options = {
      runs: runsOf(run),
      fleet: fleet.fleet,
      jobs,
      ...(serving && { serving: servingOf(folder, fleet) }),
    };
    const open = (more: string, changes: Pick<TestAppOptions, "changes"> = {}) => {
      const { app, send, logged, requests } = testApp({ toml: `${keys}${more}`, ...options, ...changes });
      const sendAny: PopulatedApp["send"] = async ({ path }, target, given) =>
        path === "/v1/events" ? await start(app, target, given) : await send(target, given);
      return { app, logged, requests, sendDeclared: send, send: sendAny };
    };
    const opened = open(toml, { changes: fleet.relayed });
    const authorization = /auth_token = "(.*)"/.exec(toml)?.[1];
    const uploaded = await opened.sendDeclared("/v1/datasets", {
      method: "POST",
      body: '{"text":"a"}\n',
      headers: {
        "content-type": "application/x-ndjson",
        authorization: authorization && `Bearer ${authorization}`,
      },
    });
    await body({
      ...opened,
      ...{ folder, root, again: (more) => open(more) },
      pathOf: ({ path }) =>
        path.replaceAll(/\{(\w+)\}/g, (_, name) => {
          if (name !== "id") return NAMES[name]!;
          return path.startsWith("/v1/datasets/") ? uploaded.json.id : id;
        }),
    });
  } finally {
    await jobs.close();
    await fleet.close();
    await Deno.remove(folder, { recursive: true });
  }
}

/** Serving whose processes are never started, because no request gets as far as that. */
function servingOf(folder: string, { fleet }: TestFleet): Serving {
  return new Serving({
    ...{
      fleet,
      runs_folder: `${folder}/fleet/runs`,
      idle_seconds: 600,
      clock: systemClock,
      recordings: null,
    },
    plan: (demand) => Promise.resolve(fullPlan(demand)),
    svc: () => ["false"],
    log: () => {},
  });
}

/** The status and headers of an answer whose body may not end. */
async function start(app: App, target: string, given: Given): Promise<Sent> {
  const { status, headers, body } = await app.handle(...testRequest(target, given));
  await body?.cancel();
  return { status, headers: Object.fromEntries(headers), body: "", json: null };
}
