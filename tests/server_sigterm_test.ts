/** SIGTERM while everything goes on at once: a run in an update, readers of events, an upload. */

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { openGate, untilWaiting } from "../runs/fleet/fleet_testing.ts";
import { fixturePath } from "./fixture.ts";
import { withFolder } from "./folder.ts";
import { serverConfig, ServerProcess } from "./server_process.ts";
import { shownEvents } from "./shown_events.ts";

const sanitize = { sanitizeOps: true, sanitizeResources: true };
const JSON_TYPE = { "content-type": "application/json" };
const ROW = '{"text":"Once there was a cat."}\n';

/** Resolves when the server answers a request of a route. */
async function untilOpen(url: string, route: string): Promise<void> {
  const line = `in_progress{route="${route}"} 1`;
  while (!(await (await fetch(`${url}/v1/metrics`)).text()).includes(line));
}

/** An upload whose second half is sent by `finish`. */
function upload(url: string): { answer: Promise<Response>; finish: () => void } {
  const row = new TextEncoder().encode(ROW),
    { promise: allowed, resolve: finish } = Promise.withResolvers<void>();
  const body = new ReadableStream({
    start: (controller) => controller.enqueue(row),
    async pull(controller) {
      await allowed;
      controller.enqueue(row);
      controller.close();
    },
  });
  const headers = { "content-type": "application/x-ndjson" };
  return { answer: fetch(`${url}/v1/datasets`, { method: "POST", headers, body }), finish };
}

Deno.test(
  "SIGTERM finishes what goes on: the run keeps a checkpoint, readers get its last event, an upload is stored",
  sanitize,
  () =>
    withFolder(async (folder) => {
      const root = `${folder}/root`, gate = `${folder}/gate`;
      await Deno.mkdir(root);
      await Deno.copyFile(await fixturePath("models/tiny-agent-f16.gguf"), `${root}/model.gguf`);
      await Deno.writeTextFile(`${root}/rows.jsonl`, ROW);
      const options = {
        config: await serverConfig(folder, `path_roots = [${JSON.stringify(root)}]`),
        program: "tests/scripted_server.ts",
        env: { SCRIPTED_GATE: gate },
      };
      const first = await ServerProcess.start(options), { url } = first;
      const create = () =>
        fetch(`${url}/v1/runs`, {
          method: "POST",
          headers: JSON_TYPE,
          body: JSON.stringify({
            ...{ recipe: "sft", model: `${root}/model.gguf`, data: `${root}/rows.jsonl` },
            ...{ budget: { updates: 9 }, params: { "training.ctx": 64, "training.batch_tokens": 64 } },
          }),
        });
      const created = await create(), run = await created.json();
      assert.equal(created.status, 201, JSON.stringify(run));
      await openGate(gate, 1);
      await untilWaiting(gate, 2);
      const path = `/v1/runs/${run.id}`, of_all = Array.fromAsync(shownEvents(`${url}/v1/events`, 0));
      const of_run = Array.fromAsync(shownEvents(`${url}${path}/events`, 0));
      const sent = upload(url);
      for (const route of ["/v1/datasets", "/v1/events", "/v1/runs/{id}/events"]) await untilOpen(url, route);

      first.child.kill("SIGTERM");
      await first.line(({ message }) => message === "svc-server stops: SIGTERM");
      const refused = await create(), problem = await refused.json();
      assert.deepEqual([refused.status, problem.type, problem.errors, refused.headers.get("retry-after")], [
        ...[503, "urn:svc:problems/device-busy", []],
        "30",
      ]);
      sent.finish();
      const stored = await sent.answer, card = await stored.json();
      assert.deepEqual([stored.status, card.rows, card.sha256], [
        201,
        2,
        createHash("sha256").update(ROW + ROW).digest("hex"),
      ]);
      await openGate(gate, 2);
      // Above its limit of 9.5 s the server would end with status 1.
      assert.equal(await first.ended(), 0);
      const events = await of_run, last = events.at(-1)!;
      assert.deepEqual([last.kind, last.data.state], ["state", "interrupted"]);
      assert.deepEqual(events.map(({ id }) => id), events.map((_, i) => i + 1));
      assert.deepEqual((await of_all).map(({ kind, data }) => [kind, data.run, data.state]), [
        ["created", run.id, "queued"],
        ...["starting", "running", "interrupted"].map((state) => ["state", run.id, state]),
      ]);

      const second = await ServerProcess.start(options);
      const found = await (await fetch(`${second.url}${path}`)).json();
      const { checkpoints } = await (await fetch(`${second.url}${path}/checkpoints`)).json();
      assert.deepEqual([found.state, found.error], ["interrupted", null]);
      // The step that waited at the gate did not begin.
      assert.deepEqual([checkpoints[0].update, found.progress.update], [1, 1]);
      assert.deepEqual(await (await fetch(`${second.url}/v1/datasets/${card.id}`)).json(), card);
      assert.equal(await second.stop(), 0);
    }),
);
