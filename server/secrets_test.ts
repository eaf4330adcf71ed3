/** The token and the keys that `api_key_env` names are in nothing that the server says or writes. */

import assert from "node:assert/strict";
import { testConfig } from "../runs/config_testing.ts";
import { TestFleet, testPlan } from "../runs/fleet/fleet_testing.ts";
import { JobPool } from "../runs/jobs/job_pool.ts";
import { systemClock } from "../core/clock.ts";
import { withFolder } from "../tests/folder.ts";
import { type Given, testApp, testRequest } from "./app_testing.ts";
import { FleetRuns } from "./resources/run_document.ts";
import { ROUTES } from "./route_table.ts";
import type { Route } from "./routing/route.ts";
import { openDatabase } from "./store/database.ts";

const TOKEN = "canary-token-5d1c", KEY = "canary-key-77ab", VARIABLE = "SVC_TEST_CANARY_KEY";

const CONFIG = `
auth_token = "${TOKEN}"
[[judges]]
id = "critic"
model = "m"
base_url = "http://127.0.0.1:1"
api_key_env = "${VARIABLE}"
`;

/** Bodies that hold both, where a client could put them. */
const BODIES = [
  {},
  { recipe: "sft", model: TOKEN, data: KEY },
  {
    recipe: "agent_grpo",
    model: "/m",
    scenarios: "/s",
    objective: { judge: { id: "critic", api_key: KEY, key: TOKEN } },
  },
  { model: `/${TOKEN}`, messages: [{ role: TOKEN, content: KEY }], name: [TOKEN], kind: KEY, at: KEY },
];

function requestsOf({ method, path, body, operation }: Route, id: string): [string, Given][] {
  const target = path.replaceAll(
    /\{(\w+)\}/g,
    (_, name) => name === "id" ? id : name === "name" ? "events" : "1",
  );
  const authorization = `Bearer ${TOKEN}`,
    content_type = Object.keys(body?.content ?? {})[0] ?? "application/json";
  const headers = { authorization, ...(method === "GET" ? {} : { "content-type": content_type }) };
  // An upload is stored as it was sent.
  const sent = operation === "create_dataset" ? BODIES.slice(0, 1) : BODIES;
  const bodies = method === "GET" ? [undefined] : sent.map((each) => JSON.stringify(each));
  // Without the token, with a wrong one that has it, with it in the query, and as it should be.
  const callers: [string, Record<string, string>][] = [
    [target, { ...headers, authorization: "" }],
    [target, { ...headers, authorization: `${authorization}${KEY}` }],
    [`${target}?access_token=${TOKEN}&sig=${KEY}&limit=${TOKEN}`, headers],
    [target, { ...headers, "idempotency-key": TOKEN, "last-event-id": KEY, traceparent: TOKEN }],
    [target, headers],
  ];
  return callers.flatMap(([target, headers]) =>
    bodies.map((
      body,
    ): [string, Given] => [target, { method, headers, ...(body === undefined ? {} : { body }) }])
  );
}

/** The files below a folder in which a text stands. */
async function filesWith(folder: string, text: string): Promise<string[]> {
  const found: string[] = [];
  for await (const { name, isDirectory, isFile } of Deno.readDir(folder)) {
    const path = `${folder}/${name}`;
    if (isDirectory) found.push(...await filesWith(path, text));
    else if (isFile && new TextDecoder("latin1").decode(await Deno.readFile(path)).includes(text)) {
      found.push(path);
    }
  }
  return found;
}

Deno.test("neither the token nor a key is in an answer, a header, a line of the log, a URL or a file", () =>
  withFolder(async (folder) => {
    Deno.env.set(VARIABLE, KEY);
    const fleet = await TestFleet.open({ folder });
    const jobs = new JobPool({ entry_url: new URL("../cli.ts", import.meta.url).href });
    const said: string[] = [];
    const database = openDatabase(`${folder}/index.sqlite`, {
      clock: systemClock,
      log: (line) => said.push(JSON.stringify(line)),
    });
    try {
      const plan = testPlan(testConfig(folder), 1);
      const run = await fleet.create({ updates: 1 }, { plan });
      await fleet.until(run, "completed");
      await fleet.fleet.idle(run.id);
      const { app, logged, requests } = testApp({
        toml: `data_dir = ${JSON.stringify(`${folder}/data`)}\n${CONFIG}`,
        ...{ fleet: fleet.fleet, changes: fleet.relayed, runs: new FleetRuns(fleet.fleet), jobs, database },
      });
      // Deleting comes last, because then nothing is left.
      const routes = ROUTES.toSorted((a, b) => Number(a.method === "DELETE") - Number(b.method === "DELETE"));
      for (const route of routes.filter(({ path }) => path !== "/v1/events")) {
        for (const [target, given] of requestsOf(route, run.id)) {
          const { status, headers, body } = await app.handle(...testRequest(target, given));
          said.push([status, JSON.stringify([...headers]), await new Response(body).text()].join("\n"));
        }
        if (route.operation === "link_artifact") assert.ok(said.some((text) => text.includes("&sig=")));
        if (route.operation === "get_run") {
          // What is searched is there: the events, a checkpoint and the index of a run.
          const places = (await filesWith(folder, run.id)).map((path) => path.slice(folder.length));
          for (const kind of ["events.jsonl", "index.sqlite"]) {
            assert.ok(places.some((place) => place.includes(kind)), `${kind} in ${places}`);
          }
          assert.ok((await filesWith(folder, "adapter")).some((path) => path.includes("/checkpoints/")));
        }
      }
      said.push(...[...logged, ...requests, ...fleet.logged].map((line) => JSON.stringify(line)));
      for (const secret of [TOKEN, KEY]) {
        assert.deepEqual(said.filter((text) => text.includes(secret)), []);
        assert.deepEqual(await filesWith(folder, secret), []);
      }
    } finally {
      await jobs.close();
      await fleet.close();
      database.close();
      Deno.env.delete(VARIABLE);
    }
  }));
