import assert from "node:assert/strict";
import { dirname } from "node:path";
import { ManualClock } from "../../core/clock_fake.ts";
import { ServiceError } from "../../core/errors.ts";
import { recordFlushes } from "../../tests/flushes.ts";
import type { RunEvent } from "./event.ts";
import { BATCH_MS, EventLog, readEvents } from "./event_log.ts";

const strict = { sanitizeOps: true, sanitizeResources: true };

async function withDirectory(body: (path: string) => Promise<void>) {
  const directory = await Deno.makeTempDir();
  try {
    await body(`${directory}/events.jsonl`);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

const log = (message: string) => ({ kind: "log", level: "info", message }) as const;

async function all(path: string, since = 0): Promise<RunEvent[]> {
  const events = [];
  for await (const event of readEvents(path, { since })) events.push(event);
  return events;
}

Deno.test("events are numbered from 1 without gaps, also after a restart", strict, async () => {
  await withDirectory(async (path) => {
    const clock = new ManualClock();
    for (const messages of [["a", "b"], ["c"]]) {
      const events = await EventLog.open(path, { run: "run_1", clock });
      for (const message of messages) events.append(log(message));
      await events.close();
    }
    const events = await all(path);
    assert.deepEqual(events.map((event) => event.seq), [1, 2, 3]);
    assert.deepEqual(events[2], {
      seq: 3,
      time: "2026-01-01T00:00:00.000Z",
      run: "run_1",
      kind: "log",
      level: "info",
      message: "c",
    });
    assert.deepEqual((await all(path, 2)).map((event) => event.seq), [3]);
  });
});

Deno.test("a crash at any byte loses at most the incomplete line", strict, async () => {
  await withDirectory(async (path) => {
    const clock = new ManualClock();
    const first = await EventLog.open(path, { run: "run_1", clock });
    for (const message of ["one", "zwö", "three"]) first.append(log(message));
    await first.close();
    const bytes = await Deno.readFile(path);
    const ends = [...bytes.keys()].filter((i) => bytes[i] === 10).map((i) => i + 1);
    for (let cut = 0; cut <= bytes.length; cut++) {
      await Deno.writeFile(path, bytes.subarray(0, cut));
      const whole = ends.filter((end) => end <= cut).length;
      const again = await EventLog.open(path, { run: "run_1", clock });
      assert.equal(again.last_seq, whole);
      again.append(log("next"));
      await again.close();
      assert.deepEqual(
        (await all(path)).map((event) => event.seq),
        Array.from({ length: whole + 1 }, (_, i) => i + 1),
      );
    }
  });
});

Deno.test("what an opened log holds survives a power cut, and so does a new log", strict, async () => {
  await withDirectory(async (path) => {
    const options = { run: "run_1", clock: new ManualClock() };
    const open = () => recordFlushes(async () => await (await EventLog.open(path, options)).close());
    const made = await open();
    assert.deepEqual([made.get(path), made.get(dirname(path))], ["", ["events.jsonl"]]);
    // A killed process wrote these without flushing them.
    const whole = '{"seq":1,"kind":"log"}\n';
    await Deno.writeTextFile(path, `${whole}{"seq"`);
    assert.equal((await open()).get(path), whole);
  });
});

Deno.test("a damaged line in the middle is refused with its number", strict, async () => {
  await withDirectory(async (path) => {
    await Deno.writeTextFile(path, '{"seq":1,"kind":"log"}\nx\n{"seq":3,"kind":"log"}\n');
    await assert.rejects(
      EventLog.open(path, { run: "r", clock: new ManualClock() }),
      (error) =>
        error instanceof ServiceError && error.code === "format_invalid" && /line 2/.test(error.message),
    );
    await Deno.writeTextFile(path, '{"seq":1,"kind":"log"}\n{"seq":3,"kind":"log"}\n');
    await assert.rejects(EventLog.open(path, { run: "r", clock: new ManualClock() }), /number is 3/);
  });
});

Deno.test("what was checked is not read again, unless the log has become shorter", strict, async () => {
  await withDirectory(async (path) => {
    const clock = new ManualClock(), options = { run: "run_1", clock };
    const first = await EventLog.open(path, options);
    for (const message of ["one", "zwö"]) first.append(log(message));
    await first.close();
    const bytes = await Deno.readFile(path), checked = first.place;
    assert.deepEqual(checked, { seq: 2, offset: bytes.length });
    await Deno.writeFile(path, bytes.with(0, 88));
    await assert.rejects(EventLog.open(path, options), /line 1 is damaged/);
    await Deno.writeTextFile(path, '{"seq":3,"kind":"log"}\n{"seq', { append: true });
    const again = await EventLog.open(path, { ...options, checked });
    assert.equal(again.append(log("next")).seq, 4);
    await again.close();
    assert.equal(again.place.offset, (await Deno.stat(path)).size);
    await Deno.writeFile(path, bytes.subarray(0, bytes.indexOf(10) + 1));
    const shorter = await EventLog.open(path, { ...options, checked });
    assert.equal(shorter.last_seq, 1);
    await shorter.close();
  });
});

Deno.test("a batch is written after 50 ms, in one piece and before it is reported", strict, async () => {
  await withDirectory(async (path) => {
    const clock = new ManualClock();
    const reported = Promise.withResolvers<number[]>();
    const events = await EventLog.open(path, {
      run: "r",
      clock,
      on_durable: (batch) => reported.resolve(batch.map((event) => event.seq)),
    });
    events.append(log("a"));
    events.append(log("b"));
    assert.equal((await all(path)).length, 0);
    await clock.advance(BATCH_MS);
    assert.deepEqual(await reported.promise, [1, 2]);
    assert.equal((await all(path)).length, 2);
    await events.close();
  });
});

Deno.test("a write that fails ends the log: nothing is accepted after a gap", async () => {
  const clock = new ManualClock();
  await withDirectory(async (path) => {
    const events = await EventLog.open(path, { run: "r", clock });
    const full = {
      code: "internal",
      message: `Cannot write the event log ${path}: no space is left on the disk; free some space and go on`,
    };
    const write = Deno.FsFile.prototype.write;
    Deno.FsFile.prototype.write = () =>
      Promise.reject(Object.assign(new Error("No space left on device"), { code: "ENOSPC" }));
    try {
      events.append(log("a"));
      await assert.rejects(events.flush(), full);
      assert.throws(() => events.append(log("b")), full);
      await assert.rejects(events.close(), full);
    } finally {
      Deno.FsFile.prototype.write = write;
    }
    assert.equal((await all(path)).length, 0);
  });
});

Deno.test("a reader follows the log and stops on its signal", strict, async () => {
  await withDirectory(async (path) => {
    const clock = new ManualClock(), stop = new AbortController();
    const events = await EventLog.open(path, { run: "r", clock });
    events.append(log("a"));
    await events.flush();
    const reader = readEvents(path, { follow: { clock, signal: stop.signal } });
    assert.equal((await reader.next()).value!.seq, 1);
    const next = reader.next();
    await Deno.writeTextFile(path, '{"seq":2,"kind":"l', { append: true });
    const asleep = async () => {
      while (clock.sleeping === 0) await new Promise((resolve) => setTimeout(resolve));
    };
    await asleep();
    await clock.advance(100);
    await asleep();
    await Deno.writeTextFile(path, 'og"}\n', { append: true });
    await clock.advance(100);
    assert.equal((await next).value!.seq, 2);
    const last = reader.next();
    stop.abort();
    assert.equal((await last).done, true);
    await events.close();
  });
});
