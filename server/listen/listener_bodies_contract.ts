/** Bodies on every listener: both directions at their reader's pace, and the end of the work when a client leaves. */

import assert from "node:assert/strict";
import { z } from "zod";
import { ManualClock } from "../../core/clock_fake.ts";
import {
  type Answer,
  type BodySpec,
  empty,
  json,
  jsonPieces,
  raw,
  type Route,
  route,
} from "../routing/route.ts";
import { connect, reader, type WithRoutes } from "./listener_testing.ts";

const BYTES = "application/octet-stream";
const CHUNK = new Uint8Array(65_536);
/** More than the buffers of two sockets hold. */
const MANY = 2000;

type Handler = (
  request: Request,
  body: ReadableStream<Uint8Array<ArrayBuffer>>,
) => BodyInit | Promise<BodyInit>;

function bytesRoute(path: string, handler: Handler, limit: BodySpec["limit"] = "max_dataset_bytes"): Route {
  return route({
    method: "POST",
    path,
    operation: path.slice(1),
    summary: "Bytes in, bytes out.",
    body: { limit, content: { [BYTES]: z.string() } },
    answers: { 200: { description: "Bytes.", content: { [BYTES]: z.string() } } },
    async handler({ request, body }) {
      return raw(200, BYTES, await handler(request, body.stream));
    },
  });
}

function head(address: string, lines: string): Uint8Array {
  return new TextEncoder().encode(
    `POST /x HTTP/1.1\r\nHost: ${address}\r\nContent-Type: ${BYTES}\r\n${lines}\r\n`,
  );
}

/** A stream with this many chunks that counts the reads. */
function chunks(count: number) {
  const state = { pulled: 0, cancelled: Promise.withResolvers<void>() };
  const stream = new ReadableStream<Uint8Array<ArrayBuffer>>({
    pull(controller) {
      if (++state.pulled > count) controller.close();
      else controller.enqueue(CHUNK);
    },
    cancel: () => state.cancelled.resolve(),
  }, { highWaterMark: 0 });
  return { state, stream };
}

/** Moves the clock once the server waits for its client. */
async function whileWaiting(clock: ManualClock, delta_ms: number): Promise<void> {
  while (clock.sleeping === 0) await new Promise((resolve) => setTimeout(resolve, 1));
  await clock.advance(delta_ms);
}

async function* oneText(text: string): AsyncGenerator<string> {
  yield await Promise.resolve(text);
}

/** A route for each form of an answer, with the length that GET has. */
const ANSWERS: readonly [answer: () => Answer, length: string | null][] = [
  [() => json(200, "text"), "6"],
  [() => jsonPieces(200, oneText('"text"')), null],
  [() => raw(200, BYTES, "text"), "4"],
  [() => raw(200, "text/event-stream", chunks(1).stream), null],
  [
    () => ({ ...raw(200, BYTES, chunks(1).stream), headers: { "content-length": `${CHUNK.length}` } }),
    "65536",
  ],
  [() => empty(204), null],
];

/** The tests by name. */
export const BODY_TESTS: Readonly<Record<string, (withRoutes: WithRoutes) => Promise<void>>> = {
  "request and answer bodies are streamed at the same time": async (withRoutes) => {
    // The answer starts before the body has ended: neither is buffered completely.
    const echo = bytesRoute("/x", (_, body) => body);
    await withRoutes([echo], async (address, logged) => {
      using connection = await connect(address);
      await connection.write(head(address, "Transfer-Encoding: chunked\r\n"));
      const readUntil = reader(connection);
      for (const word of ["first", "second"]) {
        await connection.write(new TextEncoder().encode(`${word.length}\r\n${word}\r\n`));
        await readUntil(word);
      }
      await connection.write(new TextEncoder().encode("0\r\n\r\n"));
      assert.match(await readUntil("\r\n0\r\n\r\n"), /^HTTP\/1\.1 200 /);
      assert.deepEqual(logged, []);
    });
  },

  "an answer is produced at its client's pace, and ends when the client leaves": async (withRoutes) => {
    const { state, stream } = chunks(MANY);
    const disconnected = Promise.withResolvers<void>();
    const big = bytesRoute("/x", (request) => {
      request.signal.addEventListener("abort", () => disconnected.resolve());
      return stream;
    });
    await withRoutes([big], async (address, logged) => {
      const connection = await connect(address);
      await connection.write(head(address, "Content-Length: 0\r\n"));
      // The reads are limited by what the client has read plus the buffers of the sockets.
      await connection.read(new Uint8Array(65_536));
      connection.close();
      await Promise.all([state.cancelled.promise, disconnected.promise]);
      assert.ok(state.pulled < MANY, `${state.pulled} chunks were made for a client that read one`);
      assert.deepEqual(logged, []);
    });
  },

  "a client that leaves during its body ends the reading, and nothing is logged": async (withRoutes) => {
    const started = Promise.withResolvers<void>();
    const ended = Promise.withResolvers<{ bytes: number; aborted: boolean }>();
    const reads = bytesRoute("/x", async (request, body) => {
      let bytes = 0;
      try {
        for await (const chunk of body) {
          bytes += chunk.length;
          started.resolve();
        }
      } finally {
        ended.resolve({ bytes, aborted: request.signal.aborted });
      }
      return "";
    });
    await withRoutes([reads], async (address, logged) => {
      const connection = await connect(address);
      await connection.write(head(address, `Content-Length: ${2 * CHUNK.length}\r\n`));
      await connection.write(CHUNK);
      await started.promise;
      connection.close();
      const { bytes, aborted } = await ended.promise;
      assert.ok(bytes <= CHUNK.length && aborted);
      assert.deepEqual(logged, []);
    });
  },

  "an answer that fails during sending is cut off and logged with its trace": async (withRoutes) => {
    const fails = bytesRoute("/x", () =>
      new ReadableStream({
        pull(controller) {
          controller.enqueue(CHUNK);
          controller.error(new Error("the file is gone"));
        },
      }));
    await withRoutes([fails], async (address, logged) => {
      using connection = await connect(address);
      await connection.write(head(address, "Content-Length: 0\r\n"));
      const text = await new Response(connection.readable).text().catch(String);
      assert.ok(!text.endsWith("0\r\n\r\n"), "the answer looks complete");
      assert.equal(logged.length, 1);
      assert.match(String(logged[0]!.message), /the file is gone/);
      assert.match(String(logged[0]!.trace_id), /^[0-9a-f]{32}$/);
    });
  },

  "a client that leaves before its answer starts ends the work": async (withRoutes) => {
    const started = Promise.withResolvers<void>();
    const disconnected = Promise.withResolvers<void>();
    const waits = bytesRoute("/x", async (request, body) => {
      await new Response(body).text();
      request.signal.addEventListener("abort", () => disconnected.resolve());
      started.resolve();
      await disconnected.promise;
      return "";
    });
    await withRoutes([waits], async (address, logged) => {
      const connection = await connect(address);
      await connection.write(head(address, "Content-Length: 4\r\n"));
      await connection.write(CHUNK.subarray(0, 4));
      await started.promise;
      connection.close();
      await disconnected.promise;
      assert.deepEqual(logged, []);
    });
  },

  "a client that sends nothing of its body is answered 408 without a body, and its work ends": async (
    withRoutes,
  ) => {
    const clock = new ManualClock(), ended = Promise.withResolvers<[how: string, aborted: boolean]>();
    const reads = bytesRoute("/x", async (request, body) => {
      const how = await new Response(body).text().then(() => "whole", () => "broken");
      ended.resolve([how, request.signal.aborted]);
      return "";
    });
    await withRoutes([reads], async (address, logged) => {
      using connection = await connect(address);
      await connection.write(head(address, "Content-Length: 4\r\n"));
      await connection.write(CHUNK.subarray(0, 1));
      await whileWaiting(clock, 24_000);
      await whileWaiting(clock, 1000);
      const text = await reader(connection)("\r\n\r\n");
      assert.match(text, /^HTTP\/1\.1 408 /);
      assert.match(text, /\r\n(content-length: 0|transfer-encoding: chunked)\r\n/i);
      assert.deepEqual(await ended.promise, ["broken", true]);
      assert.deepEqual([logged, clock.sleeping], [[], 0]);
    }, clock);
  },

  "a body that keeps its pace takes any time, and one that then stops is cut off": async (withRoutes) => {
    const clock = new ManualClock(), disconnected = Promise.withResolvers<void>();
    const echo = bytesRoute("/x", (request, body) => {
      request.signal.addEventListener("abort", () => disconnected.resolve());
      return body;
    });
    await withRoutes([echo], async (address, logged) => {
      using connection = await connect(address);
      await connection.write(head(address, "Transfer-Encoding: chunked\r\n"));
      const readUntil = reader(connection), word = "x".repeat(20 * 1024);
      for (let i = 0; i < 5; i++) {
        await whileWaiting(clock, 20_000);
        const end = `end ${i}`, length = (word.length + end.length).toString(16);
        await connection.write(new TextEncoder().encode(`${length}\r\n${word}${end}\r\n`));
        await readUntil(end);
      }
      await whileWaiting(clock, 25_000);
      await disconnected.promise;
      assert.deepEqual([logged, clock.sleeping], [[], 0]);
    }, clock);
  },

  "a client that stops reading is cut off, and its answer's stream ends": async (withRoutes) => {
    const clock = new ManualClock(), endless = chunks(Infinity);
    const big = bytesRoute("/x", () => endless.stream);
    await withRoutes([big], async (address, logged) => {
      using connection = await connect(address);
      await connection.write(head(address, "Content-Length: 0\r\n"));
      let is_cut = false;
      endless.state.cancelled.promise.then(() => is_cut = true);
      // The buffers of the sockets fill up first, with short waits.
      while (!is_cut) {
        await clock.advance(1000);
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
      assert.deepEqual([logged, clock.sleeping], [[], 0]);
    }, clock);
  },

  "an upload is read at its reader's pace, and a body that nobody reads is not kept": async (withRoutes) => {
    const taken = Promise.withResolvers<void>(), go = Promise.withResolvers<void>();
    const slow = bytesRoute("/x", async (_, body) => {
      const chunks = body.getReader();
      await chunks.read();
      taken.resolve();
      await go.promise;
      await chunks.cancel();
      return "enough";
    });
    await withRoutes([slow], async (address) => {
      using connection = await connect(address);
      await connection.write(head(address, `Content-Length: ${MANY * CHUNK.length}\r\n`));
      let written = 0;
      const writing = (async () => {
        while (written < MANY * CHUNK.length) written += await connection.write(CHUNK);
      })().catch(() => {});
      await taken.promise;
      // Once the buffers of the sockets are full, nothing more is taken.
      for (let before = -1; before !== written;) {
        before = written;
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
      assert.ok(written < MANY * CHUNK.length / 2, `${written} bytes were taken for a reader of one chunk`);
      go.resolve();
      assert.match(await reader(connection)("enough"), /^HTTP\/1\.1 200 /);
      connection.close();
      await writing;
    });
  },

  "a body above the limit is refused when it is announced, else when it exceeds it": async (withRoutes) => {
    const limit = 8 << 20;
    const whole = bytesRoute("/x", async (_, body) => {
      return `${(await new Response(body).bytes()).length}`;
    }, "max_body_bytes");
    await withRoutes([whole], async (address) => {
      using announced = await connect(address);
      await announced.write(head(address, "Content-Length: 10000000000\r\n"));
      assert.match(await reader(announced)("\r\n\r\n"), /^HTTP\/1\.1 413 /);
      using fits = await connect(address);
      const answer = reader(fits)("8388608");
      await fits.write(head(address, `Content-Length: ${limit}\r\n`));
      for (let sent = 0; sent < limit;) sent += await fits.write(CHUNK.subarray(0, limit - sent));
      assert.match(await answer, /^HTTP\/1\.1 200 /);
      const endless = await connect(address);
      await endless.write(head(address, "Transfer-Encoding: chunked\r\n"));
      const size = new TextEncoder().encode(`${CHUNK.length.toString(16)}\r\n`), end = size.subarray(-2);
      const frame = new Uint8Array([...size, ...CHUNK, ...end]);
      const refused = reader(endless)("\r\n\r\n");
      let sent = 0, is_refused = false;
      refused.then(() => is_refused = true, () => is_refused = true);
      const sending = (async () => {
        while (!is_refused && sent < 3 * limit) {
          for (let at = 0; at < frame.length;) at += await endless.write(frame.subarray(at));
          sent += CHUNK.length;
        }
        if (!is_refused) endless.close();
      })().catch(() => {});
      assert.match(await refused, /^HTTP\/1\.1 413 /);
      endless.close();
      await sending;
    });
  },

  "HEAD has the length that GET has": async (withRoutes) => {
    const routes = ANSWERS.map(([handler], i): Route => ({
      ...{ method: "GET", path: `/${i}`, operation: `read_${i}`, summary: "Reads.", handler },
      answers: { 200: { description: "Anything." } },
    }));
    await withRoutes(routes, async (address, logged) => {
      for (const [i, [, length]] of ANSWERS.entries()) {
        for (const method of ["GET", "HEAD"]) {
          const answer = await fetch(`http://${address}/${i}`, { method });
          await answer.bytes();
          assert.equal(answer.headers.get("content-length"), length, `${method} of answer ${i}`);
        }
      }
      assert.deepEqual(logged, []);
    });
  },

  "a large body comes back as it was sent": async (withRoutes) => {
    const echo = bytesRoute("/x", (_, body) => body);
    await withRoutes([echo], async (address) => {
      const sent = new Uint8Array(8 << 20).map((_, i) => i * i);
      const answer = await fetch(`http://${address}/x`, {
        method: "POST",
        headers: { "content-type": BYTES },
        body: sent,
      });
      const [given, wanted] = await Promise.all(
        [await answer.bytes(), sent].map((bytes) => crypto.subtle.digest("SHA-256", bytes)),
      );
      assert.deepEqual(given, wanted);
    });
  },
};
