/** With `redact_error_paths` no problem, warning or event holds a path of the machine. */

import assert from "node:assert/strict";
import { TestFleet } from "../../runs/fleet/fleet_testing.ts";
import { withFolder } from "../../tests/folder.ts";
import { CATALOGUE, postJson, postToml, withPlans } from "../../tests/plan_app.ts";
import { type Given, type Sent, testApp } from "../app_testing.ts";

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
        const line = app.logged.find(({ trace_id }) => trace_id === sent.json.trace_id);
        assert.ok(hasPath({ ...sent, body: JSON.stringify(line) }), sent.body);
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
      // The configuration is data of the client.
      assert.equal(json.config.model.path, model);
    }, { toml: REDACTED }),
);

Deno.test("no event and no error of a run holds a path", strict, () =>
  withFolder(async (folder) => {
    const fleet = await TestFleet.open({ folder });
    try {
      const apps = ["redact_error_paths = true", ""].map((toml) => testApp({ fleet: fleet.fleet, toml }));
      const [redacted, full] = apps as [typeof apps[0], typeof apps[0]];
      const run = await fleet.create({ updates: 1 });
      await fleet.until(run, "completed");
      await fleet.fleet.idle(run.id);
      const events = await redacted!.send(`/v1/runs/${run.id}/events`);
      assert.ok((await full!.send(`/v1/runs/${run.id}/events`)).body.includes(`${folder}/`));
      assert.ok(!events.body.includes(folder), events.body);
      assert.match(events.body, /"path":"<path>\/adapter\.gguf"/);
      const broken = await fleet.create({ fatal: `Cannot read ${folder}/m.gguf: no` });
      await fleet.until(broken, "failed");
      const { json } = await redacted!.send(`/v1/runs/${broken.id}`);
      assert.ok(json.error.detail.includes("<path>/m.gguf"), JSON.stringify(json.error));
    } finally {
      await fleet.close();
    }
  }));
