/** What every listener does, on real sockets: requests as sent, answers as made, and its end. */

import assert from "node:assert/strict";
import { ManualClock } from "../../core/clock_fake.ts";
import type { RequestContext } from "../app.ts";
import { CONNECTION_LIMITS } from "./listener.ts";
import { BODY_TESTS } from "./listener_bodies_contract.ts";
import { connect, type Listen, reader, sendRaw, withHandler, withRoutesOn } from "./listener_testing.ts";

const CLOSE = "Connection: close\r\n\r\n";

/** What a handler sees of a request. */
interface Seen {
  context: Omit<RequestContext, "span">;
  method: string;
  headers: Record<string, string>;
  body: string | null;
}

/** Answers 200 to raw requests and returns what the handler saw of them. */
async function seenOf(listen: Listen, requests: readonly string[]): Promise<Seen[]> {
  const seen: Seen[] = [];
  const handle = async (request: Request, { span: _, ...context }: RequestContext) => {
    const headers = Object.fromEntries(request.headers);
    seen.push({ context, method: request.method, headers, body: request.body && await request.text() });
    return new Response("ok");
  };
  await withHandler({ listen, handle }, async (address) => {
    for (const text of requests) assert.match(await sendRaw(address, text), /^HTTP\/1\.1 200 /, text);
  });
  return seen;
}

/** HTTP that parsers disagree about: a proxy and the server must not see two different requests in it. */
const BROKEN: Readonly<Record<string, string>> = {
  "no HTTP": "BROKEN\r\n\r\n",
  "two lengths": `POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n${CLOSE}ab`,
  "a list of lengths": `POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 2\r\n${CLOSE}ab`,
  "a negative length": `POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n${CLOSE}`,
  "a length with a sign": `POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n${CLOSE}a`,
  "length and chunks":
    `POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n${CLOSE}0\r\n\r\nGET /x HTTP/1.1\r\n\r\n`,
  "chunks and length":
    `POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n${CLOSE}0\r\n\r\nGET /x HTTP/1.1\r\n\r\n`,
  "an encoding that is not chunked": `POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: x\r\n${CLOSE}`,
  "a space before the colon": `GET / HTTP/1.1\r\nHost: a\r\nX-A : 1\r\n${CLOSE}`,
  "a folded header": `GET / HTTP/1.1\r\nHost: a\r\nX-A: 1\r\n 2\r\n${CLOSE}`,
  "a NUL in a header": `GET / HTTP/1.1\r\nHost: a\r\nX-A: \0\r\n${CLOSE}`,
  "a space in the target": `GET /a b HTTP/1.1\r\nHost: a\r\n${CLOSE}`,
  "an unknown version": `GET / HTTP/9.9\r\nHost: a\r\n${CLOSE}`,
};

/** Reads until the connection ends, also when it is reset. */
async function untilEnd(connection: Deno.TcpConn): Promise<void> {
  const buffer = new Uint8Array(4096);
  while (await connection.read(buffer).catch(() => null) !== null);
}

type Test = (listen: Listen) => Promise<void>;

const TESTS: Readonly<Record<string, Test>> = {
  "a request has its method, target, Host and headers as sent": async (listen) => {
    const lines = (line: string) => `${line} HTTP/1.1\r\nHost: localhost:1\r\n${CLOSE}`;
    const targets = [
      "/v1/../runs/./%2e%2E/%zz%41?q=%20&x#f",
      "//v1//runs/",
      `/"<>|\\^\`{}`,
      "http://evil.com/v1/health",
      "https://localhost:1/v1/../health",
    ];
    const seen = await seenOf(listen, [
      ...targets.map((target) => lines(`GET ${target}`)),
      lines("TRACE /x"),
      lines("OPTIONS /x"),
      `GET / HTTP/1.1\r\nHost: LOCALHOST\r\nOrigin: a\r\norigin: b\r\nX-Name:  v \r\n${CLOSE}`,
    ]);
    assert.deepEqual(seen.slice(0, targets.length).map(({ context }) => context.target), targets);
    for (const { context } of seen.slice(0, targets.length)) assert.deepEqual(context.hosts, ["localhost:1"]);
    assert.deepEqual(seen.slice(-3).map(({ context }) => context.method), ["TRACE", "OPTIONS", "GET"]);
    const { context, headers } = seen.at(-1)!;
    assert.deepEqual(context.hosts, ["LOCALHOST"]);
    assert.deepEqual([headers.origin, headers["x-name"]], ["a, b", "v"]);
    assert.match(context.peer, /^127\.0\.0\.1:\d+$/);
  },

  "a body has its bytes, and no length or a length of zero is no body": async (listen) => {
    const start = `POST / HTTP/1.1\r\nHost: a\r\n`;
    const seen = await seenOf(listen, [
      `${start}Content-Length: 3\r\n${CLOSE}abc`,
      `${start}Transfer-Encoding: chunked\r\n${CLOSE}2;x=y\r\nab\r\n1\r\nc\r\n0\r\n\r\n`,
      `${start}Content-Length: 0\r\n${CLOSE}`,
      `${start}${CLOSE}`,
      `GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n${CLOSE}abc`,
    ]);
    assert.deepEqual(seen.map(({ body }) => body), ["abc", "abc", null, null, null]);
  },

  "broken HTTP is refused without a body, closes its connection, and never reaches the handler": async (
    listen,
  ) => {
    const seen: string[] = [];
    const handle = (_: Request, { target }: RequestContext) =>
      Promise.resolve(new Response(String(seen.push(target))));
    await withHandler({ listen, handle }, async (address) => {
      for (const [name, text] of Object.entries(BROKEN)) {
        assert.match(await sendRaw(address, text), /^HTTP\/1\.1 4\d\d [^]*\r\n\r\n$/, name);
        assert.deepEqual(seen, [], name);
      }
      const sized = `GET / HTTP/1.1\r\nHost: a\r\nX-A: ${"a".repeat(1 << 20)}\r\n${CLOSE}`;
      assert.match(await sendRaw(address, sized).catch(() => ""), /^(HTTP\/1\.1 4\d\d [^]*\r\n\r\n)?$/);
      assert.match(await sendRaw(address, `GET / HTTP/1.1\r\nHost: a\r\n${CLOSE}`), /^HTTP\/1\.1 200 /);
    });
  },

  "two Host headers reach the handler both, or not at all": async (listen) => {
    const seen: (readonly string[])[] = [];
    const handle = (_: Request, { hosts }: RequestContext) => {
      seen.push(hosts);
      return Promise.resolve(new Response(null, { status: 401 }));
    };
    await withHandler({ listen, handle }, async (address) => {
      for (const hosts of ["Host: a\r\nHost: b\r\n", ""]) {
        assert.match(await sendRaw(address, `GET / HTTP/1.1\r\n${hosts}${CLOSE}`), /^HTTP\/1\.1 40[01] /);
      }
    });
    for (const hosts of seen) assert.ok(hosts.length !== 1, `${hosts} is not one host`);
  },

  "a request behind one whose body nobody reads is answered": async (listen) => {
    const handle = (_: Request, { target }: RequestContext) => Promise.resolve(new Response(`at ${target}.`));
    await withHandler({ listen, handle }, async (address) => {
      for (const method of ["GET", "POST", "DELETE"]) {
        const first = `${method} /first HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc`;
        const text = await sendRaw(address, `${first}POST /second HTTP/1.1\r\nHost: a\r\n${CLOSE}`);
        assert.match(text, /at \/first\.[^]*at \/second\./, method);
      }
    });
  },

  "a request behind an answer that came before its body's end is answered, or not carried out": async (
    listen,
  ) => {
    const seen: string[] = [], go = Promise.withResolvers<void>();
    const handle = (_: Request, { target }: RequestContext) => {
      seen.push(target);
      const body = async function* () {
        yield new TextEncoder().encode(`at ${target}.`);
        await go.promise;
        yield new TextEncoder().encode(`end of ${target}.`);
      };
      return Promise.resolve(new Response(ReadableStream.from(body())));
    };
    await withHandler({ listen, handle }, async (address) => {
      using connection = await connect(address);
      const write = (text: string) => connection.write(new TextEncoder().encode(text));
      await write("POST /first HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab");
      const read = reader(connection);
      await read("at /first.");
      await write(`cdePOST /second HTTP/1.1\r\nHost: a\r\n${CLOSE}`);
      for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setTimeout(resolve));
      go.resolve();
      const is_last = /\r\nconnection: close\r\n/i.test(await read("end of /first."));
      if (is_last) await untilEnd(connection);
      else await read("end of /second.");
      assert.deepEqual(seen, is_last ? ["/first"] : ["/first", "/second"]);
    });
  },

  "a request behind one that is answered while the server stops is answered, or not carried out": async (
    listen,
  ) => {
    const seen: string[] = [], asked = Promise.withResolvers<void>(), go = Promise.withResolvers<void>();
    const handle = async (_: Request, { target }: RequestContext) => {
      seen.push(target);
      asked.resolve();
      await go.promise;
      return new Response(`at ${target}.`);
    };
    await withHandler({ listen, handle, clock: new ManualClock() }, async (address, _, listener) => {
      const line = (target: string) => `POST ${target} HTTP/1.1\r\nHost: a\r\n\r\n`;
      const text = sendRaw(address, `${line("/first")}${line("/second")}`);
      await asked.promise;
      const closed = listener.close();
      go.resolve();
      const answered = [...(await text).matchAll(/at (.+?)\./g)].map(([, target]) => target);
      await closed;
      assert.equal(answered[0], "/first");
      assert.deepEqual(seen, answered);
    });
  },

  "HEAD answers with the length of what GET would send, and no body": async (listen) => {
    const handle = () =>
      Promise.resolve(new Response(null, { headers: { "content-length": "123", "x-a": "b" } }));
    await withHandler({ listen, handle }, async (address) => {
      const text = await sendRaw(address, `HEAD / HTTP/1.1\r\nHost: a\r\n${CLOSE}`);
      assert.match(text, /^HTTP\/1\.1 200 [^]*\r\ncontent-length: 123\r\n[^]*\r\n\r\n$/i);
      assert.match(text, /\r\nx-a: b\r\n/i);
    });
  },

  "HEAD has no length where GET has none, and its connection goes on": async (listen) => {
    const handle = ({ method }: Request) =>
      Promise.resolve(new Response(method === "HEAD" ? null : new Blob(["streamed"]).stream()));
    await withHandler({ listen, handle }, async (address, logged) => {
      const start = "HTTP/1.1\r\nHost: a\r\n";
      const text = await sendRaw(address, `HEAD / ${start}\r\nGET / ${start}${CLOSE}`);
      const [head, of_get, ...body] = text.split("\r\n\r\n");
      for (const lines of [head, of_get]) {
        assert.match(lines!, /^HTTP\/1\.1 200 /);
        assert.doesNotMatch(lines!, /content-length/i);
      }
      assert.match(body.join("\r\n\r\n"), /^8\r\nstreamed\r\n0\r\n/);
      assert.deepEqual(logged, []);
    });
  },

  "a stream with a length is sent with it, and one that fails is not taken for all of it": async (listen) => {
    let fails = false;
    const handle = () => {
      const body = new ReadableStream({
        pull(controller) {
          if (fails) return controller.error(new Error("the file is gone"));
          controller.enqueue(new Uint8Array(100_000));
          fails = true;
        },
      }, { highWaterMark: 0 });
      return Promise.resolve(new Response(body, { headers: { "content-length": "200000" } }));
    };
    await withHandler({ listen, handle }, async (address, logged) => {
      const answer = await fetch(`http://${address}/`);
      assert.equal(answer.headers.get("content-length"), "200000");
      await assert.rejects(answer.bytes());
      assert.match(String(logged[0]!.message), /the file is gone/);
    });
  },

  "the head of a stream is sent before its first bytes": async (listen) => {
    const handle = () => Promise.resolve(new Response(new ReadableStream(), { headers: { "x-a": "b" } }));
    await withHandler({ listen, handle }, async (address) => {
      using connection = await connect(address);
      await connection.write(new TextEncoder().encode("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
      assert.match(await reader(connection)("\r\n\r\n"), /\r\nx-a: b\r\n/i);
    });
  },

  "the end waits for an answer that has begun": async (listen) => {
    const started = Promise.withResolvers<void>(), go = Promise.withResolvers<void>();
    const handle = async () => {
      started.resolve();
      await go.promise;
      return new Response("whole");
    };
    await withHandler({ listen, handle }, async (address, _, listener) => {
      const text = sendRaw(address, `GET / HTTP/1.1\r\nHost: a\r\n\r\n`);
      await started.promise;
      const closed = listener.close();
      for (let turn = 0; turn < 10; turn++) await new Promise((resolve) => setTimeout(resolve));
      go.resolve();
      assert.match(await text, /^HTTP\/1\.1 200 [^]*whole\r\n0\r\n\r\n$/);
      await closed;
      await assert.rejects(connect(address), Deno.errors.ConnectionRefused);
    });
  },

  "the end waits until the answer to the last upload is sent": async (listen) => {
    const started = Promise.withResolvers<void>();
    const handle = async (request: Request) => {
      started.resolve();
      const text = await request.text();
      return new Response(text, { headers: { "content-length": String(text.length) } });
    };
    await withHandler({ listen, handle }, async (address, _, listener) => {
      using connection = await connect(address);
      const write = (text: string) => connection.write(new TextEncoder().encode(text));
      await write("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nwh");
      await started.promise;
      const closed = listener.close();
      await write("ole");
      await reader(connection)("\r\n\r\nwhole");
      await closed;
    });
  },

  "clients that stop sending delay the end by the grace time and no longer": async (listen) => {
    for (const is_read of [true, false]) {
      const started = Promise.withResolvers<void>(), clock = new ManualClock();
      const handle = async (request: Request) => {
        started.resolve();
        if (is_read) await request.text();
        return new Response("early");
      };
      await withHandler({ listen, handle, clock }, async (address, _, listener) => {
        using connection = await connect(address);
        const sent = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nwh";
        await connection.write(new TextEncoder().encode(sent));
        await (is_read ? started.promise : reader(connection)("early"));
        const closed = listener.close();
        await clock.advance(CONNECTION_LIMITS.close_grace_ms);
        await closed;
      });
    }
  },

  "connections without an open request do not delay the end": async (listen) => {
    const ok = () => Promise.resolve(new Response("ok")), clock = new ManualClock();
    const request = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    await withHandler({ listen, handle: ok, clock }, async (address, _, listener) => {
      using silent = await connect(address), half = await connect(address), kept = await connect(address);
      await half.write(new TextEncoder().encode("GET / HTTP/1.1\r\nHost:"));
      await kept.write(new TextEncoder().encode(request));
      await reader(kept)("ok");
      await listener.close();
      for (const connection of [silent, half, kept]) {
        assert.equal(await connection.read(new Uint8Array(1)).catch(() => null), null);
      }
    });
  },

  "once the last request is answered, other connections do not delay the end": async (listen) => {
    const started = Promise.withResolvers<void>(), go = Promise.withResolvers<void>();
    const handle = async () => {
      started.resolve();
      await go.promise;
      return new Response("whole");
    };
    await withHandler({ listen, handle, clock: new ManualClock() }, async (address, _, listener) => {
      using half = await connect(address);
      await half.write(new TextEncoder().encode("GET / HTTP/1.1\r\nHost:"));
      const text = sendRaw(address, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
      await started.promise;
      const closed = listener.close();
      go.resolve();
      assert.match(await text, /^HTTP\/1\.1 200 [^]*connection: close\r\n[^]*whole\r\n0\r\n\r\n$/i);
      await closed;
    });
  },

  "a client that disconnects before its answers are sent does not delay the end": async (listen) => {
    const left = Promise.withResolvers<void>(), asked = Promise.withResolvers<void>();
    const handle = async ({ signal }: Request) => {
      signal.addEventListener("abort", () => left.resolve());
      asked.resolve();
      await left.promise;
      return new Response(null, { status: 204 });
    };
    await withHandler({ listen, handle, clock: new ManualClock() }, async (address, _, listener) => {
      const client = await connect(address);
      await client.write(new TextEncoder().encode("GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(3)));
      await asked.promise;
      client.close();
      await left.promise;
      await listener.close();
    });
  },

  "an open answer that never ends delays the end by the grace time and no longer": async (listen) => {
    const cancelled = Promise.withResolvers<void>();
    const body = () => new ReadableStream({ cancel: () => cancelled.resolve() });
    const handle = () => Promise.resolve(new Response(body()));
    const clock = new ManualClock();
    await withHandler({ listen, handle, clock }, async (address, _, listener) => {
      using idle = await connect(address);
      await idle.write(new TextEncoder().encode("GET / HTTP/1.1\r\nHost:"));
      using streams = await connect(address);
      await streams.write(new TextEncoder().encode("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
      await reader(streams)("\r\n\r\n");
      const closed = listener.close();
      await clock.advance(CONNECTION_LIMITS.close_grace_ms);
      await closed;
      await cancelled.promise;
    });
  },
};

/** Defines the tests of a kind of listener. */
export function listenerContract(kind: string, listen: Listen): void {
  const sanitize = { sanitizeOps: true, sanitizeResources: true };
  for (const [name, run] of Object.entries(TESTS)) {
    Deno.test({ name: `${kind}: ${name}`, ...sanitize, fn: () => run(listen) });
  }
  for (const [name, run] of Object.entries(BODY_TESTS)) {
    Deno.test({ name: `${kind}: ${name}`, ...sanitize, fn: () => run(withRoutesOn(listen)) });
  }
}
