/** Every route that needs a job, when too many jobs wait already. */

import assert from "node:assert/strict";
import { ServiceError } from "../../core/errors.ts";
import type { JobRunner } from "../../runs/jobs/job_table.ts";
import type { Given } from "../app_testing.ts";
import { withJobApp } from "../jobs_testing.ts";

const FULL: JobRunner = {
  run: () =>
    Promise.reject(
      new ServiceError("device_unavailable", "Cannot do it: many wait", { retry_after_seconds: 10 }),
    ),
};

const post = (body: unknown): Given => ({
  method: "POST",
  headers: { "content-type": "application/json" },
  body: JSON.stringify(body),
});

const upload = (body: string): Given => ({
  method: "POST",
  headers: { "content-type": "application/x-ndjson" },
  body,
});

Deno.test("a route whose jobs find no room answers device-busy with Retry-After", () =>
  withJobApp(async ({ send, root, data, restart }) => {
    const stored = await send("/v1/datasets", upload('{"text":"a"}'));
    assert.equal(stored.status, 201);
    const dataset = `/v1/datasets/${stored.json.id}`, model = `${root}/m.gguf`;
    await Deno.writeTextFile(model, "");
    const asked: [string, Given?][] = [
      ["/v1/datasets", upload('{"text":"b"}')],
      [`${dataset}/preview`],
      [`${dataset}/rows/1/tokens?model=${encodeURIComponent(model)}`],
      [`${dataset}/tokenize`, post({ model })],
      ["/v1/model-files"],
      ["/v1/preflight", post({ model })],
      ["/v1/plan", post({ recipe: "sft", model, data: stored.json.id })],
    ];
    const full = restart({ jobs: FULL });
    for (const [target, given = {}] of asked) {
      const { status, json, headers } = await full.send(target, given);
      assert.deepEqual(
        [status, json.type, json.errors, json.detail, headers["retry-after"]],
        [503, "urn:svc:problems/device-busy", [], "Cannot do it: many wait", "10"],
        target,
      );
    }
    assert.deepEqual(full.logged, [], "it is no failure of the server");
    // The upload that was refused left nothing.
    const names = (await Array.fromAsync(Deno.readDir(`${data}/datasets`))).map(({ name }) => name);
    assert.deepEqual(names, [stored.json.id]);
  }));
