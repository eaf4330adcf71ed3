import assert from "node:assert/strict";
import { ManualClock } from "./clock_fake.ts";
import { currentTrace, Log, type LogLevel, withoutTrace, withTrace } from "./log.ts";

/** A log whose reader takes as many bytes at a time as it is allowed to. */
function testLog(options: { level?: LogLevel; max_waiting_bytes?: number; fails?: boolean } = {}) {
  const { level = "info", max_waiting_bytes, fails = false } = options;
  const reader = { text: "", writes: 0, gate: Promise.resolve() };
  const decoder = new TextDecoder();
  const log = new Log({
    clock: new ManualClock(),
    level,
    ...(max_waiting_bytes === undefined ? {} : { max_waiting_bytes }),
    async write(bytes) {
      reader.writes++;
      await reader.gate;
      if (fails) throw new Deno.errors.BrokenPipe("the reader left");
      const taken = bytes.subarray(0, 7);
      reader.text += decoder.decode(taken, { stream: true });
      return taken.length;
    },
  });
  const lines = async () => {
    await log.flushed();
    return reader.text.split("\n").slice(0, -1).map((text) => JSON.parse(text));
  };
  return { log, reader, lines };
}

Deno.test("a line is JSON with its time, complete also when the reader takes a few bytes at a time", async () => {
  const { log, reader, lines } = testLog();
  log.line({ level: "error", message: "two\nlines\u001b[31m \u202e é", size_bytes: 3 });
  const time = new Date(new ManualClock().wall_ms()).toISOString();
  assert.deepEqual(await lines(), [
    { time, level: "error", message: "two\nlines\u001b[31m \u202e é", size_bytes: 3 },
  ]);
  // deno-lint-ignore no-control-regex
  assert.ok(/^[^\x00-\x09\x0b-\x1f\u202e]*\n$/.test(reader.text) && reader.text.indexOf("\n") > 0);
});

Deno.test("lines below the level are left out", async () => {
  for (
    const [level, expected] of [
      ["info", ["info", "warning", "error"]],
      ["warning", ["warning", "error"]],
      ["error", ["error"]],
    ] as const
  ) {
    const { log, lines } = testLog({ level });
    for (const given of ["info", "warning", "error"]) log.line({ level: given });
    assert.deepEqual((await lines()).map((line) => line.level), expected);
  }
});

Deno.test("lines of a request have its trace id, however deep; those of work that outlives it have none", async () => {
  const { log, lines } = testLog();
  const deep = async (message: string) => {
    await new Promise((resolve) => setImmediate(resolve));
    log.line({ message });
  };
  await Promise.all([
    withTrace("a".repeat(32), () => deep("first")),
    withTrace("b".repeat(32), () => Promise.all([deep("second"), withoutTrace(() => deep("later"))])),
    deep("none"),
  ]);
  assert.equal(currentTrace(), null);
  assert.deepEqual(
    Object.fromEntries((await lines()).map(({ message, trace_id }) => [message, trace_id])),
    { first: "a".repeat(32), second: "b".repeat(32), later: undefined, none: undefined },
  );
});

Deno.test("a reader that stops holds nothing up: lines without room are lost, and their number is told", async () => {
  const { log, reader, lines } = testLog({ max_waiting_bytes: 1000 });
  const go = Promise.withResolvers<void>();
  reader.gate = go.promise;
  const message = "x".repeat(200);
  for (let i = 0; i < 50; i++) log.line({ i, message });
  await new Promise((resolve) => setImmediate(resolve));
  for (let i = 50; i < 60; i++) log.line({ i, message });
  assert.equal(reader.writes, 1, "one write waits, and nothing waits for it");
  go.resolve();
  const all = await lines(), kept = all.filter(({ i }) => i !== undefined), told = all.at(-1)!;
  assert.ok(kept.length >= 3 && kept.length <= 5, `${kept.length} lines fit`);
  assert.deepEqual(kept.map(({ i }) => i), kept.map((_, i) => i));
  assert.deepEqual([told.level, told.lost_lines], ["warning", 60 - kept.length]);
  log.line({ message: "again" });
  assert.equal((await lines()).at(-1)!.message, "again");
});

Deno.test("a reader that left ends the output, and nothing fails", async () => {
  const { log, reader } = testLog({ fails: true });
  log.line({ message: "first" });
  await log.flushed();
  log.line({ message: "second" });
  await log.flushed();
  assert.equal(reader.writes, 1);
});

Deno.test("on a full disk lines are lost; with room again the log goes on, and says how many", async () => {
  let text = "", room = 100;
  const log = new Log({
    clock: new ManualClock(),
    level: "info",
    write(bytes) {
      if (room === 0) return Promise.reject(Object.assign(new Error("full"), { code: "ENOSPC" }));
      const taken = bytes.subarray(0, room);
      room -= taken.length;
      text += new TextDecoder().decode(taken);
      return Promise.resolve(taken.length);
    },
  });
  for (let i = 0; i < 3; i++) {
    log.line({ i });
    await log.flushed();
  }
  room = 1e6;
  log.line({ i: 3 });
  await log.flushed();
  const [first, torn, ...rest] = text.split("\n");
  assert.equal(JSON.parse(first!).i, 0);
  assert.ok(torn!.length > 0 && torn!.length < first!.length, "a part of the second line");
  const [after, told, end] = rest;
  assert.deepEqual([JSON.parse(after!).i, JSON.parse(told!).lost_lines, end], [3, 2, ""]);
});
