/** A proxy of another project between client and server: it checks every answer against api/openapi.json. */

import assert from "node:assert/strict";
import { gpuTest } from "../kernels/gpu_testing.ts";
import { ROUTES } from "../server/route_table.ts";
import type { Method, Route } from "../server/routing/route.ts";
import { Router, splitTarget } from "../server/routing/router.ts";
import { withFolder } from "./folder.ts";
import { prismMissing, startPrism } from "./prism.ts";
import { ServerProcess } from "./server_process.ts";
import { shownEvents } from "./shown_events.ts";
import { smallSft } from "./small_sft.ts";

const JSON_HEADERS = { "content-type": "application/json" };

/** The id of the first task of the example's file. */
const SCENARIO = "train-write-0000";

/** Two attempts at one task, of two short turns each. */
async function smallAgent(root: string, model: string) {
  const tasks = await Deno.readTextFile(new URL("../examples/tiny_agent_tasks.train.jsonl", import.meta.url));
  await Deno.writeTextFile(`${root}/tasks.jsonl`, tasks.split("\n")[0]!);
  return {
    ...{ recipe: "agent_grpo", model, scenarios: `${root}/tasks.jsonl`, objective: { environment: "box" } },
    budget: { updates: 1 },
    params: {
      ...{ "training.ctx": 640, "agent.scenarios_per_update": 1, "agent.group_size": 2 },
      ...{ "agent.max_turns": 2, "agent.max_new_tokens_per_turn": 24, "agent.truncation": "min_reward" },
    },
  };
}

interface Server {
  url: string;
  root: string;
  /** The ids of two runs without attempts. */
  runs: [string, string];
  /** That of a run with trajectories. */
  agent: string;
}

/** A server with a model, a data file, two runs of three updates and one with trajectories, all of which have ended. */
async function withRuns(body: (server: Server) => Promise<void>) {
  await withFolder(async (folder) => {
    const root = await Deno.realPath(folder), config = `${root}/server.toml`;
    const more = { "checkpoint.every_updates": 1, "evaluation.data": `${root}/rows.jsonl` };
    const small = await smallSft(root, { updates: 3, more }), agent = await smallAgent(root, small.model);
    await Deno.writeTextFile(
      config,
      // Prism makes up an answer of its own where a server says 501, so nothing is switched off.
      `bind = "127.0.0.1:0"
data_dir = "${root}/data"
path_roots = [${JSON.stringify(root)}]
max_queued_runs = 1  # the process of the first run may still be leaving
[serving]
enabled = true
[[environments]]
id = "box"
type = "local"
allow_unsandboxed = true
scenario_toolsets = ["files"]
`,
    );
    const server = await ServerProcess.start({ config });
    try {
      const runs: string[] = [];
      for (const recipe of [small.recipe, small.recipe, agent]) {
        const init = { method: "POST", headers: JSON_HEADERS, body: JSON.stringify(recipe) };
        const created = await fetch(`${server.url}/v1/runs`, init), { id, detail } = await created.json();
        assert.equal(created.status, 201, detail);
        for await (const { kind } of shownEvents(`${server.url}/v1/runs/${id}/events`, 0)) {
          if (kind === "end") break;
        }
        runs.push(id);
      }
      const [first, second, third] = runs as [string, string, string];
      await body({ url: server.url, root, runs: [first, second], agent: third });
    } finally {
      await server.stop("SIGTERM");
    }
  });
}

interface Sent {
  method?: string;
  json?: unknown;
  ndjson?: string;
  toml?: string;
}

function initOf({ method, json, ndjson, toml }: Sent): RequestInit {
  const body = json === undefined ? ndjson ?? toml : JSON.stringify(json);
  const content_type = json !== undefined
    ? "application/json"
    : `application/${toml === undefined ? "x-ndjson" : "toml"}`;
  return {
    method: method ?? (body === undefined ? "GET" : "POST"),
    ...(body === undefined ? {} : { body, headers: { "content-type": content_type } }),
  };
}

/** A run that is asked, forked and commanded: each request succeeds, in the state that follows it. */
function runRequests(run: string): [string, string, Sent, until?: string][] {
  const messages = [{ role: "user", content: "Hi" }],
    fork = { fork_from: { run }, budget: { updates: 4000 } };
  const chat = { model: run, messages, max_tokens: 4 };
  return [
    ["generate", `/v1/runs/${run}/generate`, {
      json: { messages, max_new_tokens: 4, temperature: 0, top_p: 1 },
    }],
    ["evaluate", `/v1/runs/${run}/evaluate`, { json: { limit: 2 } }],
    ["models", "/v1/models", {}],
    ["chat", "/v1/chat/completions", { json: chat }],
    ["chat as a stream", "/v1/chat/completions", { json: { ...chat, stream: true } }],
    ["plan of a fork", "/v1/plan", { json: fork }],
    ["fork", "/v1/runs", { json: fork }, "running"],
    ["checkpoint", "/v1/runs/{fork}/checkpoints", { method: "POST" }],
    ["learning rate", "/v1/runs/{fork}", { method: "PATCH", json: { training: { lr: 1e-4 } } }],
    ["pause", "/v1/runs/{fork}/pause", { method: "POST" }, "paused"],
    ["resume", "/v1/runs/{fork}/resume", { method: "POST" }, "running"],
    ["cancel", "/v1/runs/{fork}/cancel", { json: { at: "now" } }, "cancelled"],
  ];
}

/** Follows a run from an event on until it is in a state. @returns The event's number. */
async function untilState(url: string, since: number, state: string): Promise<number> {
  for await (const { id, kind, data } of shownEvents(url, since)) {
    if (kind === "state" && data.state === state) return id;
  }
  throw new Error(`the run was never ${state}`);
}

/** Requests for the trajectories of a run. */
function trajectoryRequests(run: string): [string, string][] {
  const group = "trajectories/updates/1/groups/0";
  return [
    ["a scenario", `scenarios/${SCENARIO}`],
    ["updates", "trajectories"],
    ["an update", "trajectories/updates/1"],
    ["a group", group],
    ["a member", `${group}?member=1`],
    ["tokens", `${group}/members/0/tokens?limit=20`],
    ["search", `trajectories/search?scenario=${SCENARIO}`],
    ["diff", `${group}/diff?a=0&b=1`],
  ].map(([what, path]) => [what!, `/v1/runs/${run}/${path}`]);
}

/** Requests that succeed, in order, by operation; `{dataset}` is the dataset that was made. */
function validRequests({ root, runs: [a, b], agent }: Server): [string, string, Sent?][] {
  const model = `${root}/model.gguf`;
  const toml = `run.algorithm = "sft"
model.path = ${JSON.stringify(model)}
sft.data = ${JSON.stringify(`${root}/rows.jsonl`)}
training = { ctx = 64, updates = 1 }
`;
  const text = '{"text": "Once there was a cat."}\n';
  const messages =
    '{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hi."}]}\n';
  return [
    ["probe", "/healthz"],
    ["Prometheus", "/v1/metrics"],
    ...[
      "health",
      "capabilities",
      "openapi.json",
      "defaults",
      "config-schema",
      "rewards",
      "judges",
      "mcp-servers",
    ]
      .map((path): [string, string] => [path, `/v1/${path}`]),
    ["environments", "/v1/environments"],
    ["model files", "/v1/model-files"],
    ["preflight", "/v1/preflight", { json: { model } }],
    ["upload", "/v1/datasets?name=rows&kind=sft", { ndjson: text + messages }],
    ["datasets", "/v1/datasets?limit=1"],
    ["dataset", "/v1/datasets/{dataset}"],
    ["preview", "/v1/datasets/{dataset}/preview"],
    ["tokens of a row", `/v1/datasets/{dataset}/rows/1/tokens?model=${encodeURIComponent(model)}&ctx=64`],
    ["lengths", "/v1/datasets/{dataset}/tokenize", { json: { model, ctx: 64 } }],
    ["plan", "/v1/plan", { json: { recipe: "sft", model, data: `${root}/rows.jsonl` } }],
    ["plan of TOML", "/v1/plan", { toml }],
    ["runs", "/v1/runs?state=completed&limit=1"],
    ["run", `/v1/runs/${a}`],
    ["rename", `/v1/runs/${a}`, { method: "PATCH", json: { name: "First", tags: ["x"] } }],
    ["compare", `/v1/compare?runs=${a},${b}`],
    ...["evaluations", "health", "scenarios", "checkpoints", "events", "metrics", "trajectories", "artifacts"]
      .map((path): [string, string] => [`${path} of a run`, `/v1/runs/${a}/${path}`]),
    ["an evaluation", `/v1/runs/${a}/evaluations/1`],
    ...trajectoryRequests(agent),
    ["metrics as CSV", `/v1/runs/${a}/metrics?format=csv`],
    ["buckets", `/v1/runs/${a}/metrics?buckets=2&names=loss/sft`],
    ["artifact", `/v1/runs/${a}/artifacts/config`],
    ["link", `/v1/runs/${a}/artifacts/adapter/link`, { method: "POST" }],
    ["page", "/problems/conflict"],
    ["delete", `/v1/runs/${b}`, { method: "DELETE" }],
    ["delete a dataset", "/v1/datasets/{dataset}", { method: "DELETE" }],
  ];
}

/**
 * Requests that the route refuses, or may refuse: bad parameters and bodies. A body that is no JSON is not among them:
 * Prism never answers it.
 */
function invalidRequests({ method, path, body, query }: Route, run: string): [string, RequestInit][] {
  const types = Object.keys(body?.content ?? {});
  const bodies = types.length === 0 ? [undefined] : ["{}", '{"unknown": 1}', "1"];
  const targets = [run, "__proto__"].map((id) => path.replace("{id}", id).replaceAll(/\{\w+\}/g, "0"));
  const wrong = Object.keys(query?.shape ?? {}).map((name) => `${name}=-1`).join("&");
  const queries = ["", "?unknown=1", ...(wrong === "" ? [] : [`?${wrong}`])];
  return targets.flatMap((target) =>
    queries.flatMap((query) =>
      bodies.map((text): [string, RequestInit] => [target + query, {
        method,
        ...(text === undefined ? {} : { body: text, headers: { "content-type": types[0]! } }),
      }])
    )
  );
}

/** Operations without a valid request, with the reason. */
const NOT_ASKED: Readonly<Record<string, string>> = {
  stream_events: "the stream never ends, and Prism answers when it has all of it",
};

/** The operation of a request. */
function operationOf(target: string, { method = "GET" }: RequestInit): string {
  const found = new Router(ROUTES).find(splitTarget(target).path);
  return found!.routes.get(method as Method)!.operation;
}

/** Sends the requests about a run through the proxy. A process that is leaving still has the device: they wait for it. */
async function askAndCommand(
  proxy_url: string,
  { url, run, asked }: { url: string; run: string; asked: Set<string> },
): Promise<void> {
  let fork = "", seen = 0;
  for (const [what, target, sent, until] of runRequests(run)) {
    const path = target.replace("{fork}", fork), init = initOf(sent);
    const send = () => fetch(proxy_url + path, init);
    asked.add(operationOf(path, init));
    let response = await send();
    while (response.status === 503) {
      await response.body?.cancel();
      await new Promise((resolve) => setTimeout(resolve, 100));
      response = await send();
    }
    const text = await response.text();
    assert.ok(response.ok, `${what}: ${response.status} ${text}`);
    if (what === "fork") fork = JSON.parse(text).id;
    if (what === "chat as a stream") assert.match(text, /data: \[DONE\]\n\n$/);
    if (until) seen = await untilState(`${url}/v1/runs/${fork}/events`, seen, until);
  }
}

interface Violation {
  location: string[];
  message: string;
}

gpuTest(
  "Prism finds every answer of the server as api/openapi.json declares it",
  () =>
    withRuns(async (server) => {
      const { url, runs: [run] } = server, asked = new Set<string>();
      {
        await using prism = await startPrism(url, { errors: true });
        await askAndCommand(prism.url, { url, run, asked });
        let dataset = "";
        for (const [what, target, sent = {}] of validRequests(server)) {
          const path = target.replace("{dataset}", dataset), init = initOf(sent);
          const response = await fetch(prism.url + path, init);
          asked.add(operationOf(path, init));
          const text = await response.text();
          assert.ok(response.ok, `${what}: ${response.status} ${text}`);
          if (what === "upload") dataset = JSON.parse(text).id;
        }
      }
      const operations = ROUTES.map(({ operation }) => operation);
      assert.deepEqual(operations.filter((name) => !asked.has(name)), Object.keys(NOT_ASKED));
      await using prism = await startPrism(url, { errors: false });
      // Prism does not end a stream that has no end.
      const routes = ROUTES.filter(({ path }) => path !== "/v1/events");
      let refused = 0;
      for (const route of routes) {
        for (const [target, init] of invalidRequests(route, run)) {
          const response = await fetch(prism.url + target, init);
          await response.body?.cancel();
          const violations: Violation[] = JSON.parse(response.headers.get("sl-violations") ?? "[]");
          const ours = violations.filter(({ location: [where] }) => where !== "request");
          assert.deepEqual(ours, [], `${init.method} ${target}: ${response.status}`);
          assert.ok(response.status < 500, `${init.method} ${target}: ${response.status}`);
          if (response.status >= 400) refused++;
        }
      }
      assert.ok(refused > routes.length);
    }),
  prismMissing,
);
