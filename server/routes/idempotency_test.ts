/** Requests for runs that are repeated with an Idempotency-Key. */

import assert from "node:assert/strict";
import { systemClock } from "../../core/clock.ts";
import { TestFleet } from "../../runs/fleet/fleet_testing.ts";
import { ASSUMED_DEVICE } from "../../tests/assumed_device.ts";
import { fixturePath } from "../../tests/fixture.ts";
import { withFolder } from "../../tests/folder.ts";
import { writeTraces } from "../../tests/small_sft.ts";
import type { Given } from "../app_testing.ts";
import { withJobApp } from "../jobs_testing.ts";
import { type Database, openDatabase } from "../store/database.ts";

const MODEL = await fixturePath("models/tiny-agent-f16.gguf");
const DAY_MS = 86_400_000;

/** A server's life on a folder. */
async function open(
  folder: string,
): Promise<{ fleet: TestFleet; database: Database; close(): Promise<void> }> {
  const fleet = await TestFleet.open({ folder, slots: 4 });
  const database = openDatabase(`${folder}/index.sqlite`, { clock: systemClock, log: () => {} });
  const close = async () => {
    await fleet.close();
    database.close();
  };
  return { fleet, database, close };
}

async function recipeIn(root: string): Promise<Record<string, unknown>> {
  await Deno.copyFile(MODEL, `${root}/m.gguf`);
  await writeTraces(`${root}/t.jsonl`);
  const files = { model: `${root}/m.gguf`, data: `${root}/t.jsonl` };
  return { recipe: "sft", ...files, budget: { updates: 1 }, params: { "training.ctx": 1024 } };
}

function post(body: unknown): Given {
  const headers = { "content-type": "application/json", "idempotency-key": "k" };
  return { method: "POST", headers, body: JSON.stringify(body) };
}

Deno.test("a key stands for its answer for 24 hours, whatever becomes of the server and the run", () =>
  withFolder(async (folder) => {
    const probeDevices = () => Promise.resolve([ASSUMED_DEVICE]);
    const first = await open(folder);
    await withJobApp(async ({ send, root, restart, clock }) => {
      const recipe = await recipeIn(root), other = { ...recipe, name: "other" };
      const created = await send("/v1/runs", post(recipe));
      assert.equal(created.status, 201, created.body);
      const { id } = created.json, run = first.fleet.fleet.get(id)!;
      await first.fleet.until(run, "completed");
      await first.fleet.fleet.idle(id);
      const repeated = await send("/v1/runs", post(recipe));
      assert.deepEqual([repeated.status, repeated.json.id, repeated.json.state], [200, id, "completed"]);
      assert.equal((await send(`/v1/runs/${id}`, { method: "DELETE" })).status, 204);
      const deleted = await send("/v1/runs", post(recipe));
      assert.deepEqual([deleted.status, deleted.json], [200, created.json]);
      await first.close();

      const second = await open(folder);
      try {
        const later = restart({ fleet: second.fleet.fleet, database: second.database });
        await later.clock.advance(DAY_MS - 1);
        const restarted = await later.send("/v1/runs", post(recipe));
        assert.deepEqual([restarted.status, restarted.json], [200, created.json]);
        const refused = await later.send("/v1/runs", post(other));
        assert.deepEqual([refused.status, refused.json.errors[0].code], [409, "conflict"]);
        await later.clock.advance(1);
        const fresh = await later.send("/v1/runs", post(other));
        assert.equal(fresh.status, 201, fresh.body);
        assert.notEqual(fresh.json.id, id);
        assert.equal(clock.wall_ms(), later.clock.wall_ms() - DAY_MS);
      } finally {
        await second.close();
      }
    }, { fleet: first.fleet.fleet, database: first.database, probeDevices });
  }));

Deno.test("a server that was killed before it stored a key finds it with the run", () =>
  withFolder(async (folder) => {
    const { fleet, database, close } = await open(folder);
    try {
      await withJobApp(async ({ send, root }) => {
        const recipe = await recipeIn(root), { json: { id } } = await send("/v1/runs", post(recipe));
        const run = fleet.fleet.get(id)!;
        await fleet.until(run, "completed");
        await fleet.fleet.idle(id);
        assert.equal(database.run("DELETE FROM kept_answers"), 1);
        assert.deepEqual((await send("/v1/runs", post(recipe))).json.id, id);
        assert.equal((await send("/v1/runs", post({ ...recipe, name: "other" }))).status, 409);
        assert.equal((await send(`/v1/runs/${id}`, { method: "DELETE" })).status, 204);
        const repeated = await send("/v1/runs", post(recipe));
        assert.deepEqual([repeated.status, repeated.json.id], [200, id]);
      }, { fleet: fleet.fleet, database, probeDevices: () => Promise.resolve([ASSUMED_DEVICE]) });
    } finally {
      await close();
    }
  }));
