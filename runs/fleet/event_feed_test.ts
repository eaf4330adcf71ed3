import assert from "node:assert/strict";
import { withFolder } from "../../tests/folder.ts";
import { EventFeed, KEPT_BYTES, PIECE_BYTES } from "./event_feed.ts";

const strict = { sanitizeOps: true, sanitizeResources: true };

/** Log lines numbered from `from`, each with a message of a length. */
function lines(from: number, count: number, length = 10): string {
  return Array.from({ length: count }, (_, i) => {
    const event = {
      seq: from + i,
      time: "",
      run: "r",
      kind: "log",
      level: "info",
      message: "ä".repeat(length),
    };
    return JSON.stringify(event) + "\n";
  }).join("");
}

async function firstOf(feed: EventFeed, since: number, count: number): Promise<number[]> {
  const found: number[] = [], stop = new AbortController();
  for await (const piece of feed.follow(since, stop.signal)) {
    found.push(...piece.map(({ seq }) => seq));
    if (found.length >= count) break;
  }
  return found;
}

const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, i) => from + i);

Deno.test("readers get the events up to the one that is on disk, and no later one", strict, async () => {
  await withFolder(async (folder) => {
    const path = `${folder}/events.jsonl`, feed = new EventFeed(path);
    assert.deepEqual(await feed.advance(0), []);
    await Deno.writeTextFile(path, lines(1, 5) + '{"seq":6,"ki');
    assert.deepEqual((await feed.advance(3)).map(({ seq }) => seq), [1, 2, 3]);
    assert.equal(feed.last_seq, 3);
    assert.deepEqual(await firstOf(feed, 1, 2), [2, 3]);
    assert.deepEqual((await feed.advance(Infinity)).map(({ seq }) => seq), [4, 5]);
    assert.deepEqual(await firstOf(feed, 0, 5), [1, 2, 3, 4, 5]);
  });
});

Deno.test("a waiting reader wakes at new events and at its signal", strict, async () => {
  await withFolder(async (folder) => {
    const path = `${folder}/events.jsonl`, feed = new EventFeed(path), stop = new AbortController();
    const seen: number[] = [];
    const reading = (async () => {
      for await (const piece of feed.follow(0, stop.signal)) {
        seen.push(...piece.map(({ seq }) => seq));
        if (seen.length === 2) stop.abort();
      }
    })();
    await Deno.writeTextFile(path, lines(1, 1));
    await feed.advance(1);
    await Deno.writeTextFile(path, lines(2, 1), { append: true });
    await feed.advance(2);
    await reading;
    assert.deepEqual(seen, [1, 2]);
  });
});

Deno.test("old events come from the file, new ones from memory, without a gap", strict, async () => {
  await withFolder(async (folder) => {
    const path = `${folder}/events.jsonl`, feed = new EventFeed(path);
    const length = 2000, count = Math.ceil(3 * KEPT_BYTES / length);
    await Deno.writeTextFile(path, lines(1, count, length));
    assert.equal((await feed.advance(count)).length, count);
    for (const since of [0, 1, 17, count >> 1, count - 2]) {
      assert.deepEqual(await firstOf(feed, since, count - since), range(since + 1, count));
    }
    const stop = new AbortController();
    for await (const piece of feed.follow(0, stop.signal)) {
      assert.ok(JSON.stringify(piece).length < 2 * PIECE_BYTES, "an old reader gets small pieces");
      break;
    }
  });
});

Deno.test("readers of a closed feed end: at once, or with the last event", strict, async () => {
  await withFolder(async (folder) => {
    const path = `${folder}/events.jsonl`, never = new AbortController().signal;
    await Deno.writeTextFile(path, lines(1, 3));
    const feed = new EventFeed(path), waiting = Array.fromAsync(feed.follow(0, never));
    await feed.advance(2);
    await feed.advance(3);
    feed.close("at_last_event");
    const late = Array.fromAsync(feed.follow(1, never));
    assert.deepEqual((await waiting).flat().map(({ seq }) => seq), [1, 2, 3]);
    assert.deepEqual((await late).flat().map(({ seq }) => seq), [2, 3]);
    feed.close("now");
    assert.deepEqual(await Array.fromAsync(feed.follow(1, never)), []);
  });
});

Deno.test("a log with a gap is a failure, not a silent loss", strict, async () => {
  await withFolder(async (folder) => {
    const path = `${folder}/events.jsonl`, feed = new EventFeed(path);
    await Deno.writeTextFile(path, lines(1, 1) + lines(3, 1));
    await assert.rejects(feed.advance(Infinity), /event 3 follows 1/);
    const known = new EventFeed(path, { seq: 3, offset: (await Deno.stat(path)).size });
    await assert.rejects(firstOf(known, 0, 3), /event 3 follows 1/);
    // A failure is not kept: the next try reads again.
    await Deno.writeTextFile(path, lines(1, 3));
    assert.deepEqual((await feed.advance(3)).map(({ seq }) => seq), [2, 3]);
    assert.deepEqual(await firstOf(known, 0, 3), [1, 2, 3]);
  });
});
