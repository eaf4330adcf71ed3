/** The listener with limits for clients: slow ones and too many of them cannot keep others out. */

import assert from "node:assert/strict";
import { ManualClock } from "../../core/clock_fake.ts";
import { listenerContract } from "./listener_contract.ts";
import { connect, reader, sendRaw, withHandler } from "./listener_testing.ts";
import { listenNode, MAX_WAITING } from "./node_listener.ts";

listenerContract("node:http", listenNode);

const sanitize = { sanitizeOps: true, sanitizeResources: true };
const GET = "GET / HTTP/1.1\r\nHost: a\r\n";

/** Clients that hold their connections, by how. */
const SLOW = 100;

const ok = () => Promise.resolve(new Response("ok"));

/** Everything that a client gets until its connection ends, also when that is reset. */
async function untilClosed(connection: Deno.TcpConn): Promise<string> {
  let text = "";
  const buffer = new Uint8Array(65_536), decoder = new TextDecoder();
  try {
    for (let count; (count = await connection.read(buffer)) !== null;) {
      text = (text + decoder.decode(buffer.subarray(0, count))).slice(0, 200);
    }
  } catch (error) {
    if (!(error instanceof Deno.errors.ConnectionReset)) throw error;
  }
  return text;
}

Deno.test({
  name:
    "clients that send headers, bodies or nothing slowly are all closed, and others are answered meanwhile",
  ...sanitize,
  async fn() {
    const clock = new ManualClock(), reading = Promise.withResolvers<void>();
    let readers = 0;
    const handle = async (request: Request) => {
      if (request.body && ++readers === SLOW) reading.resolve();
      if (request.body) await request.text();
      return new Response("ok");
    };
    const limits = { headers_ms: 1000, body_pace: { idle_ms: 1000, bytes_per_second: 1 } };
    await withHandler({ listen: listenNode, handle, limits, clock }, async (address) => {
      const open = async (text: string) => {
        const connection = await connect(address);
        await connection.write(new TextEncoder().encode(text));
        return connection;
      };
      const all = (text: string) => Promise.all(Array.from({ length: SLOW }, () => open(text)));
      const headers = await all("GET / HTTP/1.1\r\nHost: a\r\nX-A: "), silent = await all("");
      const bodies = await all("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\na");
      await reading.promise;
      assert.match(await sendRaw(address, `${GET}Connection: close\r\n\r\n`), /^HTTP\/1\.1 200 /);
      await clock.advance(1000);
      for (const connection of bodies) {
        assert.match(await untilClosed(connection), /^HTTP\/1\.1 408 [^]*\r\n\r\n/);
      }
      for (const connection of headers) {
        assert.match(await untilClosed(connection), /^HTTP\/1\.1 408 [^]*\r\n\r\n$/);
      }
      for (const connection of silent) {
        assert.match(await untilClosed(connection), /^(HTTP\/1\.1 408 [^]*\r\n\r\n)?$/);
      }
      for (const connection of [...headers, ...silent, ...bodies]) connection.close();
    });
  },
});

Deno.test({
  name: "clients that do not read their answers are closed",
  ...sanitize,
  async fn() {
    const clock = new ManualClock();
    let cut = 0;
    const handle = () =>
      Promise.resolve(
        new Response(
          new ReadableStream({
            pull: (controller) => controller.enqueue(new Uint8Array(65_536)),
            cancel: () => void cut++,
          }, { highWaterMark: 0 }),
        ),
      );
    await withHandler({ listen: listenNode, handle, clock }, async (address) => {
      const clients = await Promise.all(Array.from({ length: 10 }, () => connect(address)));
      for (const client of clients) await client.write(new TextEncoder().encode(`${GET}\r\n`));
      while (cut < clients.length) {
        await clock.advance(1000);
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
      // The bytes in the sockets' buffers, then the end: no last chunk says that the answer is complete.
      for (const client of clients) {
        assert.match(await untilClosed(client), /^HTTP\/1\.1 200 /);
        client.close();
      }
    });
  },
});

Deno.test({
  name: "the connection of a client that was slow to take its answer ends with the answer",
  ...sanitize,
  async fn() {
    const clock = new ManualClock(), bytes = 30e6;
    const pieces = Array.from({ length: 30 }, () => new Uint8Array(bytes / 30));
    const handle = () => {
      const body = ReadableStream.from(pieces);
      return Promise.resolve(new Response(body, { headers: { "content-length": String(bytes) } }));
    };
    const request = new TextEncoder().encode(`${GET}\r\n`);
    for (const [waited_ms, is_kept] of [[1000, true], [5000, false]] as const) {
      await withHandler({ listen: listenNode, handle, clock }, async (address) => {
        using client = await connect(address);
        await client.write(request);
        while (clock.sleeping === 0) await new Promise((resolve) => setTimeout(resolve, 1));
        await clock.advance(waited_ms);
        const buffer = new Uint8Array(1 << 20), decoder = new TextDecoder();
        let left = 0;
        do {
          const part = buffer.subarray(0, await client.read(buffer) ?? assert.fail("it was cut off"));
          // The first part has the head.
          left ||= bytes + decoder.decode(part).indexOf("\r\n\r\n") + 4;
          left -= part.length;
        } while (left > 0);
        // A second request is answered if the connection is kept.
        await client.write(request).catch(() => {});
        const answer = await client.read(buffer).catch(() => null);
        assert.equal(answer !== null, is_kept);
      });
    }
  },
});

Deno.test({
  name: "a client whose answer waited for an earlier one keeps its connection",
  ...sanitize,
  async fn() {
    const clock = new ManualClock(), first = Promise.withResolvers<void>();
    let asked = 0;
    const handle = async () => {
      const number = ++asked;
      if (number === 1) await first.promise;
      return new Response(`answer ${number}.`);
    };
    await withHandler({ listen: listenNode, handle, clock }, async (address) => {
      using client = await connect(address);
      const request = new TextEncoder().encode(`${GET}\r\n`), buffer = new Uint8Array(1 << 16);
      const decoder = new TextDecoder();
      let text = "";
      const until = async (answer: string) => {
        while (!text.includes(answer)) {
          text += decoder.decode(
            buffer.subarray(0, await client.read(buffer) ?? assert.fail(`cut off: ${text}`)),
          );
        }
      };
      await client.write(new Uint8Array([...request, ...request]));
      while (asked < 1) await new Promise((resolve) => setTimeout(resolve, 1));
      await clock.advance(5000);
      first.resolve();
      await until("answer 2.");
      await client.write(request);
      await until("answer 3.");
    });
  },
});

Deno.test({
  name: "a client that sends many requests and reads no answer is closed",
  ...sanitize,
  async fn() {
    const clock = new ManualClock(), bytes = new Uint8Array(1_000_000);
    let left = 0;
    const handle = ({ signal }: Request) => {
      signal.addEventListener("abort", () => void left++);
      return Promise.resolve(new Response(bytes));
    };
    await withHandler({ listen: listenNode, handle, clock }, async (address) => {
      using client = await connect(address);
      // More than the buffers of the sockets hold.
      await client.write(new TextEncoder().encode(`${GET}\r\n`.repeat(MAX_WAITING + 1)));
      for (let turn = 0; turn < 2000 && left === 0; turn++) {
        await clock.advance(1000);
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
      assert.ok(left > 0, "its answers wait for ever");
      assert.match(await untilClosed(client), /^HTTP\/1\.1 200 /);
    });
  },
});

Deno.test({
  name: `a connection with more than ${MAX_WAITING} requests behind an unanswered one is closed`,
  ...sanitize,
  async fn() {
    for (const waiting of [MAX_WAITING, MAX_WAITING + 1]) {
      const first = Promise.withResolvers<void>();
      let asked = 0;
      const handle = async () => {
        if (++asked === 1) await first.promise;
        return new Response(`answer ${asked}.`);
      };
      await withHandler({ listen: listenNode, handle }, async (address) => {
        using client = await connect(address);
        await client.write(new TextEncoder().encode(`${GET}\r\n`.repeat(1 + waiting)));
        if (waiting > MAX_WAITING) {
          assert.equal(await untilClosed(client), "");
          assert.ok(asked <= 1, `${asked} were carried out`);
        }
        first.resolve();
        if (waiting === MAX_WAITING) await reader(client)(`answer ${1 + waiting}.`);
      });
    }
  },
});

Deno.test({
  name: "headers above the limit are refused with 431 and no body",
  ...sanitize,
  async fn() {
    await withHandler({ listen: listenNode, handle: ok }, async (address) => {
      const sized = (bytes: number) => `${GET}X-A: ${"a".repeat(bytes)}\r\nConnection: close\r\n\r\n`;
      assert.match(await sendRaw(address, sized(16_000)), /^HTTP\/1\.1 200 /);
      assert.match(await sendRaw(address, sized(17_000)), /^HTTP\/1\.1 431 [^]*\r\n\r\n$/);
    });
  },
});

Deno.test({
  name: "lines that end with a bare LF are refused with 400, and never reach the handler",
  ...sanitize,
  async fn() {
    const handle = () => assert.fail("the request was handled");
    await withHandler({ listen: listenNode, handle }, async (address) => {
      for (
        const text of [
          "GET / HTTP/1.1\nHost: a\nConnection: close\n\n",
          "GET / HTTP/1.1\r\nHost: a\nX-A: 1\r\nConnection: close\r\n\r\n",
          "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\n",
        ]
      ) assert.match(await sendRaw(address, text), /^HTTP\/1\.1 400 [^]*\r\n\r\n$/, JSON.stringify(text));
    });
  },
});

Deno.test({
  name: "a connection above the limit is closed, and one less makes room",
  ...sanitize,
  async fn() {
    const limits = { max_connections: 1, close_grace_ms: 20 };
    await withHandler({ listen: listenNode, handle: ok, limits }, async (address) => {
      const first = await connect(address);
      await first.write(new TextEncoder().encode(`${GET}\r\n`));
      await reader(first)("ok");
      const second = await connect(address);
      assert.equal(await untilClosed(second), "", "the second is closed without an answer");
      second.close();
      first.close();
      let text = "";
      while (text === "") text = await sendRaw(address, `${GET}Connection: close\r\n\r\n`).catch(() => "");
      assert.match(text, /^HTTP\/1\.1 200 /);
    });
  },
});
