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
    const small = await smallSft(root, { updates: 3, more: { "checkpoint.every_updates": 1 } });
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
