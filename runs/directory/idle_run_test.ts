import assert from "node:assert/strict";
import { ManualClock } from "../../core/clock_fake.ts";
import { withFolder } from "../../tests/folder.ts";
import { EventLog } from "../record/event_log.ts";
import type { RunRecord, RunState } from "../record/run.ts";
import { IdleRun } from "./idle_run.ts";
import { readRunRecord } from "./run_directory.ts";

const strict = { sanitizeOps: true, sanitizeResources: true };

const RECORD: RunRecord = {
  format_version: 1,
  id: "run_A",
  name: "a",
  algorithm: "sft",
  state: "starting",
  state_reason: null,
  config_hash: "",
  created_at: "2026-01-01T00:00:00.000Z",
  started_at: null,
  ended_at: null,
  parent: null,
  error: null,
  deterministic: true,
};

/**
 * The record that remains when a process dies between its log and its record, is repaired a day later, and is read
 * again. The log has a state for each second of 2026-01-01.
 */
async function repairedAfter(states: readonly RunState[], written: Partial<RunRecord>): Promise<RunRecord> {
  let found: RunRecord | null = null;
  await withFolder(async (directory) => {
    const clock = new ManualClock(Date.UTC(2026, 0, 1));
    const log = await EventLog.open(`${directory}/events.jsonl`, { run: "run_A", clock });
    for (const state of states) {
      log.append({ kind: "state", state, reason: null, detail: null, update: 0, checkpoint: null });
      await clock.advance(1000);
    }
    await log.close();
    await Deno.writeTextFile(`${directory}/run.json`, JSON.stringify({ ...RECORD, ...written }));
    await clock.advance(86_400_000);
    const idle = await IdleRun.open(directory, clock);
    await idle.recover();
    await idle.close();
    found = await readRunRecord(directory);
    assert.deepEqual(found, idle.record);
  });
  return found!;
}

const times = ({ state, started_at, ended_at }: RunRecord) => [state, started_at, ended_at];
const at = (second: number) => `2026-01-01T00:00:0${second}.000Z`;

Deno.test(
  "a repaired record has the times at which the log says that the run started and ended",
  strict,
  async () => {
    const states: RunState[] = ["queued", "starting", "running", "completed"];
    const running = { state: "running", started_at: at(2) } as const;
    assert.deepEqual(times(await repairedAfter(states, running)), ["completed", at(2), at(3)]);
    // Its record is two states behind.
    assert.deepEqual(times(await repairedAfter(states, {})), ["completed", at(2), at(3)]);
    const resumed: RunState[] = [
      "queued",
      "starting",
      "running",
      "interrupted",
      "starting",
      "running",
      "failed",
    ];
    assert.deepEqual(times(await repairedAfter(resumed, {})), ["failed", at(2), at(6)]);
  },
);

Deno.test("a run whose process died keeps its start, and ends when it is found", strict, async () => {
  const found = await repairedAfter(["queued", "starting", "running"], {});
  assert.deepEqual(times(found), ["interrupted", at(2), "2026-01-02T00:00:03.000Z"]);
  const never = await repairedAfter(["queued", "starting"], {});
  assert.deepEqual(times(never), ["interrupted", null, "2026-01-02T00:00:02.000Z"]);
});
