/** With `redact_error_paths` no answer holds a path of the machine, and the log has it under the trace. */

import assert from "node:assert/strict";
import { TestFleet } from "../../runs/fleet/fleet_testing.ts";
import { withFolder } from "../../tests/folder.ts";
import { CATALOGUE, postJson, postToml, withPlans } from "../../tests/plan_app.ts";
import { type Given, type Sent, testApp, testRequest } from "../app_testing.ts";
import { type PopulatedApp, withPopulatedApp } from "../populated_testing.ts";
import { ROUTES } from "../route_table.ts";
import type { Route } from "../routing/route.ts";

const strict = { sanitizeOps: true, sanitizeResources: true };

const REDACTED = `redact_error_paths = true\n${CATALOGUE}`;

Deno.test(
  "no refusal holds a path, and the log has it under the trace",
  strict,
  () =>
    withPlans(async (app) => {
      const { root, files, data } = app, folder = `${root}/my own models`;
      await Deno.mkdir(folder);
      await Deno.writeTextFile(`${folder}/no model.gguf`, "no model");
      await Deno.writeTextFile(`${root}/broken.jsonl`, '{"messages": 3}\n{');
      await Deno.writeTextFile(`${root}/template.jinja`, "{{ raise_exception('no') }}");
      const { model, traces, scenarios } = files;
      const sft = { recipe: "sft", model, data: traces, params: { "training.ctx": 1024 } };
      const plan = (change: object): [string, Given] => ["/v1/plan", postJson({ ...sft, ...change })];
      const grpo = { recipe: "agent_grpo", data: undefined, scenarios, params: {} };
      const requests: [type: string, target: string, given: Given][] = [
        ["invalid-request", ...plan({ model: `${root}/none` })],
        ["invalid-request", ...plan({ model: `${folder}/no model.gguf` })],
        ["invalid-request", ...plan({ data: `${root}/broken.jsonl` })],
        ["invalid-request", ...plan({ params: { "lora.init_adapter": `${folder}/no model.gguf` } })],
        ["invalid-request", ...plan({ params: { "lora.rank": `${root}/x` } })],
        ["invalid-request", ...plan({ params: { "training.ctx": 4096 } })],
        ["invalid-request", "/v1/plan", postToml(`[run]\nalgorithm = "${root}/x"`)],
        ["invalid-request", "/v1/plan", postToml(`a = ${root}`)],
        ["invalid-request", "/v1/preflight", postJson({ model: `${folder}/no model.gguf` })],
        ["forbidden-path", ...plan({ model: "/etc/passwd" })],
        ["forbidden-path", "/v1/preflight", postJson({ model: "/etc/passwd" })],
        ["not-found", ...plan({ data: "ds_x" })],
        ["not-found", `/v1${root}`, {}],
        ["server-declared", ...plan({ ...grpo, objective: { reward: { command: [`${root}/x`] } } })],
        ["unknown-catalog-id", ...plan({ ...grpo, objective: { environment: "x" } })],
        ["conflict", ...plan({ params: { "model.path": `${root}/other` } })],
        ["insufficient-memory", ...plan({ limits: { vram: "1MiB" } })],
        ["unsupported-media-type", "/v1/plan", {
          method: "POST",
          headers: { "content-type": root },
          body: "x",
        }],
        ["method-not-allowed", "/v1/plan", {}],
        ["not-implemented", "/v1/models", {}],
      ];
      const full = app.restart({ toml: CATALOGUE });
      const hasPath = ({ body }: Sent) =>
        [root, data, "/etc/", "my own models"].some((path) => body.includes(path));
      const with_path = new Set<string>();
      for (const [type, target, given] of requests) {
        const sent = await app.send(target, given);
        assert.equal(sent.json.type, `urn:svc:problems/${type}`, sent.body);
        assert.ok(!hasPath(sent), sent.body);
        if (!hasPath(await full.send(target, given))) continue;
        with_path.add(type);
        const line = app.requests.find(({ trace_id }) => trace_id === sent.json.trace_id)!;
        assert.ok(hasPath({ ...sent, body: JSON.stringify(line.paths) }), sent.body);
      }
      assert.ok(with_path.has("invalid-request"), [...with_path].join());
      const { body } = await app.send(...(requests[2]!.slice(1) as [string, Given]));
      assert.match(body, /<path>\/broken\.jsonl:1/);
      assert.match(body, /<path>\/broken\.jsonl:2/);
      const outside = await app.send("/etc/passwd");
      assert.ok(outside.status === 404 && !hasPath(outside), outside.body);
      const cut = { model, data: traces, params: { "training.ctx": 512 }, allow: ["truncate_context"] };
      const { status, json } = await app.send("/v1/plan", postJson({ recipe: "sft", ...cut }));
      assert.equal(status, 200, JSON.stringify(json));
      assert.ok(json.warnings.length > 1 && !JSON.stringify(json.warnings).includes(root));
      assert.equal(json.config.model.path, "<path>/m.gguf");
    }, { toml: REDACTED }),
);

Deno.test("no event and no error of a run holds a path", strict, () =>
  withFolder(async (folder) => {
    const fleet = await TestFleet.open({ folder });
    try {
      const { send } = testApp({ fleet: fleet.fleet, toml: "redact_error_paths = true" });
      const run = await fleet.create({ updates: 1 });
      await fleet.until(run, "completed");
      await fleet.fleet.idle(run.id);
      const events = await send(`/v1/runs/${run.id}/events`);
      assert.ok(!events.body.includes(folder), events.body);
      assert.match(events.body, /"path":"<path>\/adapter\.gguf"/);
      const broken = await fleet.create({ fatal: `Cannot read ${folder}/m.gguf: no` });
      await fleet.until(broken, "failed");
      const { json } = await send(`/v1/runs/${broken.id}`);
      assert.ok(json.error.detail.includes("<path>/m.gguf"), JSON.stringify(json.error));
    } finally {
      await fleet.close();
    }
  }));

/** What a request to a route needs so that it is answered in full. */
const QUERIES: Readonly<Record<string, string>> = {
  compare_runs: "?runs=ID,ID&evaluation=1",
  diff_trajectories: "?a=0&b=1",
  list_row_tokens: "?model=ROOT/model.gguf",
};

/** Bodies that name files of the machine. */
const BODIES: Readonly<Record<string, object>> = {
  create_plan: { recipe: "sft", model: "ROOT/model.gguf", data: "ROOT/rows.jsonl" },
  create_run: { recipe: "sft", model: "ROOT/model.gguf", data: "ROOT/rows.jsonl" },
  preflight_model: { model: "ROOT/model.gguf" },
  tokenize_dataset: { model: "ROOT/model.gguf" },
  update_run: { name: 1, notes: ["ROOT"] },
};

/** A request to a route with its real data, one with what is not there, and one that is refused. */
function requestsOf(route: Route, { pathOf, root }: PopulatedApp): [string, Given][] {
  const path = pathOf(route), { method, operation } = route;
  const fill = (text: string) =>
    text.replaceAll("ROOT", root).replaceAll("ID", pathOf(RUN).split("/").at(-1)!);
  const query = fill(QUERIES[operation] ?? "").replaceAll(" ", "%20");
  const body = BODIES[operation];
  const given: Given = {
    method,
    ...(body === undefined ? {} : postJson(JSON.parse(fill(JSON.stringify(body))))),
  };
  const escaped = encodeURIComponent(`${root}/x`);
  return [
    [path + query, { ...given, method }],
    [route.path.replaceAll(/\{\w+\}/g, escaped), { ...given, method }],
    [`${path}?limit=${escaped}&cursor=${escaped}&unknown=${escaped}`, { ...given, method }],
  ];
}

const RUN = ROUTES.find(({ operation }) => operation === "get_run")!;

/** The operations that show paths of the machine where they may. */
const WITH_PATHS = [
  ...["create_plan", "create_run", "download_artifact", "get_evaluation", "get_run"],
  ...["get_trajectory_group", "get_trajectory_update", "list_evaluations", "list_model_files"],
  ...["list_row_tokens", "list_runs", "preflight_model", "search_trajectories", "stream_run_events"],
  ...["tokenize_dataset"],
];

Deno.test("no answer of any route holds a path, with real data and with failures", () =>
  withPopulatedApp("redact_error_paths = true\n", async (populated) => {
    const full = populated.again(""), with_paths = new Set<string>(), traced: string[] = [];
    // The answer of /v1/events never ends. Deleting comes last, because then nothing is left.
    const routes = ROUTES.filter(({ path }) => path !== "/v1/events")
      .toSorted((a, b) => Number(a.method === "DELETE") - Number(b.method === "DELETE"));
    for (const route of routes) {
      for (const [target, given] of requestsOf(route, populated)) {
        const plain = route.method === "DELETE" ? null : await full.send(route, target, given);
        const sent = await populated.send(route, target, given), what = `${given.method} ${target}`;
        assert.ok(!sent.body.includes(populated.folder), `${what}: ${sent.body}`);
        assert.ok(!/\/(etc|root|home|tmp|usr|var)\//.test(sent.body), `${what}: ${sent.body}`);
        if (!plain?.body.includes(populated.folder)) continue;
        assert.equal(sent.status, plain.status, what);
        with_paths.add(route.operation);
        const { paths } = populated.requests.find(({ trace_id }) => trace_id === sent.headers["x-trace-id"])!;
        if (JSON.stringify(paths ?? "").includes(populated.folder)) traced.push(route.operation);
      }
    }
    assert.deepEqual([...with_paths].sort(), WITH_PATHS);
    // A download is as long as it says it is, whatever the log does; the run's folder has its paths.
    assert.deepEqual([...new Set(traced)].sort(), WITH_PATHS.filter((name) => name !== "download_artifact"));
  }));

Deno.test("every artefact of a run is without paths, and of the length that it says", () =>
  withPopulatedApp("redact_error_paths = true\n", async (populated) => {
    const { app, folder, pathOf } = populated, list = `${pathOf(RUN)}/artifacts`;
    const { artifacts } = (await populated.send(RUN, list, {})).json;
    const shortened: string[] = [];
    for (const { name, size_bytes } of artifacts) {
      const get = async (headers: Record<string, string>) =>
        await (await app.handle(...testRequest(`${list}/${name}`, { headers }))).bytes();
      const bytes = await get({}), text = new TextDecoder().decode(bytes);
      assert.equal(bytes.length, size_bytes, name);
      assert.ok(!text.includes(folder), name);
      if (text.includes("<path>/")) shortened.push(name);
      assert.deepEqual(await get({ range: "bytes=5-20" }), bytes.slice(5, 21), name);
    }
    assert.deepEqual(shortened, ["config", "events", "trajectories", "log"]);
  }));
