/** A run with a long log: what is read of it. */

import assert from "node:assert/strict";
import { withFolder } from "../../tests/folder.ts";
import { openGate, TestFleet } from "./fleet_testing.ts";

const strict = { sanitizeOps: true, sanitizeResources: true };

const EVENTS = 200_000;

/** The most bytes that may be read: less than a tenth of the log. */
const READ_BYTES = 2 << 20;

/** Counts the bytes that are read from open files until it is disposed of. */
function countReads(): Disposable & { bytes: number } {
  const { prototype } = Deno.FsFile, { read } = prototype;
  const counted = { bytes: 0, [Symbol.dispose]: () => void (prototype.read = read) };
  prototype.read = async function (piece) {
    const n = await read.call(this, piece);
    counted.bytes += n ?? 0;
    return n;
  };
  return counted;
}

/** Adds messages after the event that tells that the run trains. @returns The numbers of that event and of the last one. */
async function lengthen(path: string): Promise<{ running: number; last: number }> {
  const lines = (await Deno.readTextFile(path)).trimEnd().split("\n").map((line) => JSON.parse(line));
  const at = 1 + lines.findIndex(({ state }) => state === "running"), [{ time, run }] = lines;
  const more = Array.from({ length: EVENTS }, (_, i) => ({
    ...{ seq: 0, time, run, kind: "log", level: "info", message: `message ${i + 1}` },
  }));
  const all = [...lines.slice(0, at), ...more, ...lines.slice(at)];
  const text = all.map((event, i) => JSON.stringify({ ...event, seq: i + 1 }) + "\n").join("");
  assert.ok(text.length > 10 * READ_BYTES);
  await Deno.writeTextFile(path, text);
  return { running: at, last: all.length };
}

Deno.test("a reader from the middle of a long log reads only its part", strict, async () => {
  await withFolder(async (folder) => {
    const first = await TestFleet.open({ folder });
    const { id, eventsPath } = await first.create({ updates: 1 });
    await first.until(first.fleet.get(id)!, "completed");
    await first.close();
    const { running, last } = await lengthen(eventsPath), middle = EVENTS / 2;
    using reads = countReads();
    const second = await TestFleet.open({ folder }), run = second.fleet.get(id)!;
    assert.deepEqual([run.record.state, run.last_seq, run.feed.last_seq], ["completed", last, last]);
    const found: { seq: number; message: string }[] = [], never = new AbortController().signal;
    for await (const piece of run.feed.follow(middle, never)) {
      found.push(...piece.map(({ text }) => JSON.parse(text)));
      if (found.length >= 1000) break;
    }
    assert.ok(reads.bytes < READ_BYTES, `${reads.bytes} bytes were read`);
    assert.deepEqual(found.map(({ seq }) => seq), found.map((_, i) => middle + 1 + i));
    const messages = found.map((_, i) => `message ${middle + 1 - running + i}`);
    assert.deepEqual(found.map(({ message }) => message), messages);
    await second.close();
  });
});

Deno.test("a command of a run without a process reads a long log once", strict, async () => {
  await withFolder(async (folder) => {
    const first = await TestFleet.open({ folder }), gate = `${folder}/gate`;
    const run = await first.create({ updates: 2, gate });
    await first.untilTraining(run, gate, 1);
    await first.fleet.command(run.id, { command: "pause" });
    await openGate(gate, 1);
    await first.until(run, "paused");
    await first.close();
    await lengthen(run.eventsPath);
    const second = await TestFleet.open({ folder }), { fleet } = second;
    await fleet.command(run.id, { command: "set_lr", lr: 1e-5 });
    {
      using reads = countReads();
      await fleet.command(run.id, { command: "set_lr", lr: 2e-5 });
      await fleet.command(run.id, { command: "checkpoint" });
      assert.ok(reads.bytes < READ_BYTES, `${reads.bytes} bytes were read`);
    }
    await openGate(gate, 2);
    await fleet.command(run.id, { command: "resume" });
    await second.until(fleet.get(run.id)!, "completed");
    await second.close();
  });
});
