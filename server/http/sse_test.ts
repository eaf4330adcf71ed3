import assert from "node:assert/strict";
import { ManualClock } from "../../core/clock_fake.ts";
import { eventStream, type SentEvent, streamStop, textEventStream } from "./sse.ts";

const decoder = new TextDecoder();

/** Reads one piece of a stream. */
async function textOf(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<string> {
  return decoder.decode((await reader.read()).value);
}

/** A source of texts that come when the test says so; it counts who waits for the next one. */
function source() {
  let next = Promise.withResolvers<IteratorResult<string>>(), listeners = 0, is_ended = false;
  const events = {
    next() {
      const { promise } = next, then = promise.then.bind(promise);
      promise.then = ((...given: Parameters<typeof then>) => {
        listeners++;
        return then(...given);
      }) as typeof promise.then;
      return promise;
    },
    return: () => {
      is_ended = true;
      return Promise.resolve({ done: true, value: undefined });
    },
  } as unknown as AsyncGenerator<string>;
  const send = (value: string) => {
    const { resolve } = next;
    next = Promise.withResolvers();
    resolve({ done: false, value });
  };
  return { events, send, listeners: () => listeners, isEnded: () => is_ended };
}

Deno.test("a stream that waits has a comment every 15 seconds, and its source is waited for once", async () => {
  const clock = new ManualClock(), given = source(), stop = new AbortController();
  const reader = textEventStream(given.events, { clock, stop }).getReader();
  for (let i = 0; i < 100; i++) {
    const text = textOf(reader);
    // The stream has begun to wait.
    await clock.advance(0);
    await clock.advance(14_999);
    await clock.advance(1);
    assert.equal(await text, ":\n\n");
  }
  assert.equal(given.listeners(), 1);
  const text = textOf(reader);
  given.send("a");
  assert.equal(await text, "a");
  // One that comes while nobody reads is not lost.
  const comment = textOf(reader);
  await clock.advance(0);
  await clock.advance(15_000);
  assert.equal(await comment, ":\n\n");
  given.send("b");
  assert.equal(await textOf(reader), "b");
  const last = reader.read();
  await clock.advance(0);
  await reader.cancel();
  assert.equal((await last).done, true);
  assert.ok(stop.signal.aborted && given.isEnded());
  assert.equal(clock.sleeping, 0);
});

Deno.test("streams share one timer, which ends with the last of them", async () => {
  const clock = new ManualClock();
  const readers = Array.from(
    { length: 50 },
    () => textEventStream(source().events, { clock, stop: new AbortController() }).getReader(),
  );
  for (let beat = 0; beat < 2; beat++) {
    const texts = readers.map(textOf);
    await clock.advance(0);
    assert.equal(clock.sleeping, 1);
    await clock.advance(15_000);
    assert.deepEqual(new Set(await Promise.all(texts)), new Set([":\n\n"]));
  }
  const waiting = readers.map((reader) => reader.read());
  await Promise.all(readers.slice(1).map((reader) => reader.cancel()));
  assert.equal(clock.sleeping, 1);
  await readers[0]!.cancel();
  await Promise.all(waiting);
  assert.equal(clock.sleeping, 0);
});

Deno.test("a stream that waits for its next event does not keep the last ones", async () => {
  const piece: SentEvent[] = [{ id: 1, event: "a", data: "{}" }, { id: 2, event: "b", data: "{}" }];
  const ended = Promise.withResolvers<void>();
  const events = async function* () {
    yield piece;
    await ended.promise;
  };
  const clock = new ManualClock(), stop = new AbortController();
  const reader = eventStream(events(), { clock, stop }).getReader();
  assert.equal(await textOf(reader), "id: 1\nevent: a\ndata: {}\n\nid: 2\nevent: b\ndata: {}\n\n");
  assert.deepEqual(piece, []);
  ended.resolve();
  assert.equal((await reader.read()).done, true);
});

Deno.test("a stream's end is also its client's, whether that left before or leaves later", () => {
  const client = new AbortController(), before = streamStop(client.signal);
  assert.ok(!before.signal.aborted);
  client.abort();
  assert.ok(before.signal.aborted && streamStop(client.signal).signal.aborted);
});
