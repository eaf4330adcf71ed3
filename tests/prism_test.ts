/** A proxy of another project between client and server: it checks every answer against api/openapi.json. */

import assert from "node:assert/strict";
import { gpuTest } from "../kernels/gpu_testing.ts";
import { ROUTES } from "../server/route_table.ts";
import type { Route } from "../server/routing/route.ts";
import { withFolder } from "./folder.ts";
import { prismMissing, startPrism } from "./prism.ts";
import { ServerProcess } from "./server_process.ts";
import { shownEvents } from "./shown_events.ts";
import { smallSft } from "./small_sft.ts";

const JSON_HEADERS = { "content-type": "application/json" };

/** A server with a model, a data file, and two runs of three updates that have ended. */
async function withRuns(body: (server: { url: string; root: string; runs: string[] }) => Promise<void>) {
  await withFolder(async (folder) => {
    const root = await Deno.realPath(folder), config = `${root}/server.toml`;
    const more = { "checkpoint.every_updates": 1, "evaluation.data": `${root}/rows.jsonl` };
    const small = await smallSft(root, { updates: 3, more });
    await Deno.writeTextFile(
      config,
      // Prism makes up an answer of its own where a server says 501, so nothing is switched off.
      `bind = "127.0.0.1:0"
data_dir = "${root}/data"
path_roots = [${JSON.stringify(root)}]
max_queued_runs = 1  # the process of the first run may still be leaving
[serving]
enabled = true
`,
    );
    const recipe = JSON.stringify(small.recipe);
    const server = await ServerProcess.start({ config });
    try {
      const runs: string[] = [];
      for (let i = 0; i < 2; i++) {
        const init = { method: "POST", headers: JSON_HEADERS, body: recipe };
        const created = await fetch(`${server.url}/v1/runs`, init), { id, detail } = await created.json();
        assert.equal(created.status, 201, detail);
        for await (const { kind } of shownEvents(`${server.url}/v1/runs/${id}/events`, 0)) {
          if (kind === "end") break;
        }
        runs.push(id);
      }
      await body({ url: server.url, root, runs });
    } finally {
      await server.stop("SIGTERM");
    }
  });
}

interface Sent {
  method?: string;
  json?: unknown;
  ndjson?: string;
}

function initOf({ method, json, ndjson }: Sent): RequestInit {
  const body = json === undefined ? ndjson : JSON.stringify(json);
  const content_type = json === undefined ? "application/x-ndjson" : "application/json";
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

/** Requests that succeed, in order, by operation; `{dataset}` is the dataset that was made. */
function validRequests(root: string, [a, b]: string[]): [string, string, Sent?][] {
  const model = `${root}/model.gguf`;
  const text = '{"text": "Once there was a cat."}\n';
  const messages =
    '{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hi."}]}\n';
  return [
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
    ["runs", "/v1/runs?state=completed&limit=1"],
    ["run", `/v1/runs/${a}`],
    ["rename", `/v1/runs/${a}`, { method: "PATCH", json: { name: "First", tags: ["x"] } }],
    ["compare", `/v1/compare?runs=${a},${b}`],
    ...["evaluations", "health", "scenarios", "checkpoints", "events", "metrics", "trajectories", "artifacts"]
      .map((path): [string, string] => [`${path} of a run`, `/v1/runs/${a}/${path}`]),
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

/** Sends the requests about a run through the proxy. A process that is leaving still has the device: they wait for it. */
async function askAndCommand(proxy_url: string, { url, run }: { url: string; run: string }): Promise<void> {
  let fork = "", seen = 0;
  for (const [what, target, sent, until] of runRequests(run)) {
    const send = () => fetch(proxy_url + target.replace("{fork}", fork), initOf(sent));
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
    withRuns(async ({ url, root, runs }) => {
      {
        await using prism = await startPrism(url, { errors: true });
        await askAndCommand(prism.url, { url, run: runs[0]! });
        let dataset = "";
        for (const [what, target, sent = {}] of validRequests(root, runs)) {
          const response = await fetch(prism.url + target.replace("{dataset}", dataset), initOf(sent));
          const text = await response.text();
          assert.ok(response.ok, `${what}: ${response.status} ${text}`);
          if (what === "upload") dataset = JSON.parse(text).id;
        }
      }
      await using prism = await startPrism(url, { errors: false });
      // Prism does not end a stream that has no end.
      const routes = ROUTES.filter(({ path }) => path !== "/v1/events");
      let refused = 0;
      for (const route of routes) {
        for (const [target, init] of invalidRequests(route, runs[0]!)) {
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
