import assert from "node:assert/strict";
import type { Run } from "../../api/types.ts";
import { lentTo } from "./device_lease.ts";

Deno.test("runs with a process have the device, and the oldest of the waiting ones stands first", () => {
  const states = ["queued", "pausing", "paused", "queued", "completed", "running", "stopping", "starting"];
  const runs = states.map((state, i) => ({ id: String(i), state }) as Run), ids = lentTo(runs);
  assert.deepEqual(ids.holders.map(({ id }) => id), ["1", "5", "6", "7"]);
  assert.deepEqual(ids.queue.map(({ id }) => id), ["3", "0"]);
});
