/** Followers of events whose connections break, on both listeners. */

import assert from "node:assert/strict";
import { FLEET_TOKEN, withListeningFleet } from "./listener_testing.ts";

const RECONNECTS = 100;

/** Reads some events after an id, then breaks the connection. @returns Ids and kinds; null when there are none to come. */
async function readSome(url: string, since: number, count: number): Promise<[number, string][] | null> {
  const left = new AbortController(), seen: [number, string][] = [];
  const headers = { ...FLEET_TOKEN, "last-event-id": String(since) };
  const response = await fetch(url, { headers, signal: left.signal });
  if (response.status === 204) return null;
  assert.equal(response.status, 200);
  let text = "";
  try {
    for await (const piece of response.body!.pipeThrough(new TextDecoderStream())) {
      text += piece;
      for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
        const [, id, kind] = /^id: (\d+)\nevent: (\w+)\ndata: /.exec(text.slice(0, end)) ?? [];
        text = text.slice(end + 2);
        if (id !== undefined) seen.push([Number(id), kind!]);
        if (seen.length === count) return seen;
      }
    }
  } finally {
    left.abort();
  }
  return seen;
}

for (const bind of ["127.0.0.1:0", "0.0.0.0:0"]) {
  Deno.test({
    name: `a follower at ${bind} whose connection breaks ${RECONNECTS} times gets every event once`,
    // Deno does not always cancel the answer of a client that leaves: the limit for one that does not read ends it.
    fn: () =>
      withListeningFleet(bind, async ({ test, url: api }) => {
        const run = await test.create({ updates: 30 }), url = `${api}/runs/${run.id}/events`;
        const seen: [number, string][] = [];
        let connections = 0;
        // While the run trains, and after its end.
        for (let more; (more = await readSome(url, seen.length, 1 + connections % 3)); connections++) {
          seen.push(...more);
        }
        while (connections++ < RECONNECTS) {
          const since = connections * 7 % seen.length;
          assert.deepEqual(await readSome(url, since, 2), seen.slice(since, since + 2));
        }
        assert.deepEqual(seen.map(([id]) => id), seen.map((_, i) => i + 1));
        assert.deepEqual([seen.at(-1)![1], seen.length], ["end", run.last_seq]);
      }),
  });
}
