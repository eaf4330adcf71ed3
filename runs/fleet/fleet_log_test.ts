/** The lines that runs write to a server's log, and the requests to which they belong. */

import assert from "node:assert/strict";
import { AsyncQueue } from "../../core/async_queue.ts";
import { systemClock } from "../../core/clock.ts";
import { currentTrace, withTrace } from "../../core/log.ts";
import { withFolder } from "../../tests/folder.ts";
import { Fleet } from "./fleet.ts";
import { testRun } from "./fleet_testing.ts";

const TRACE = "a".repeat(32);

/** A fleet whose runs are a program, and the lines of its log with the request of each. */
async function withProgram(
  svc: () => readonly string[],
  test: (
    fleet: Fleet,
    lines: AsyncQueue<[trace: string | null, line: Record<string, unknown>]>,
  ) => Promise<void>,
): Promise<void> {
  await withFolder(async (folder) => {
    const lines = new AsyncQueue<[string | null, Record<string, unknown>]>();
    const fleet = await Fleet.open({
      ...{ folder: `${folder}/runs`, slots: 1, max_queued: 0, clock: systemClock, svc },
      log: (line) => lines.push([currentTrace(), line]),
    });
    await test(fleet, lines);
    await fleet.close(1000);
  });
}

Deno.test("a run that cannot start is logged with the request that created it", () =>
  withProgram(() => {
    throw new Error("there is no program");
  }, async (fleet, lines) => {
    const run = await withTrace(TRACE, () => fleet.create(testRun()));
    for await (const [trace, { run: id, level }] of lines) {
      assert.deepEqual([trace, id, level], [TRACE, run.id, "error"]);
      break;
    }
    assert.equal(run.record.state, "failed");
  }));

Deno.test("what a run's process says at its end belongs to no request", () =>
  withProgram(() => ["sh", "-c", "echo broken >&2; exit 1"], async (fleet, lines) => {
    const run = await withTrace(TRACE, () => fleet.create(testRun()));
    for await (const [trace, { level, message }] of lines) {
      assert.deepEqual([trace, level, message], [null, "warning", "broken"]);
      break;
    }
    await fleet.idle(run.id);
  }));
