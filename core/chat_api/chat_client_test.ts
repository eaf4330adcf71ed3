import assert from "node:assert/strict";
import { ServiceError } from "../errors.ts";
import {
  ChatClient,
  type ChatClientOptions,
  MAX_ANSWER_BYTES,
  MAX_QUOTED_CHARS,
  MAX_REQUESTS_AT_ONCE,
} from "./chat_client.ts";
import {
  type Behaviour,
  bomb,
  CANARY,
  chatAnswer,
  type ChatServer,
  dripping,
  hanging,
  late,
  refusing,
  WaitsClock,
  withChatServer,
} from "./chat_server_fake.ts";
import { MAX_RETRY_WAIT_MS } from "./retry.ts";

const TIMEOUT_MS = 20_000;
const never = new AbortController().signal;
const HELLO = { messages: [{ role: "user" as const, content: "hello" }] };

interface Asked extends ChatServer {
  clock: WaitsClock;
  client: ChatClient;
}

/** Runs a test with a client of an endpoint with these behaviours. */
function withClient(
  behaviours: readonly Behaviour[],
  body: (asked: Asked) => Promise<void>,
  { clock = new WaitsClock(TIMEOUT_MS), ...more }: Partial<ChatClientOptions> & { clock?: WaitsClock } = {},
): Promise<void> {
  return withChatServer(behaviours, async (server) => {
    const client = new ChatClient({
      ...{ base_url: server.base_url, model: "judge-1", key: CANARY, seed: 1, timeout_ms: TIMEOUT_MS },
      ...{ max_retries: 3, clock, name: "the judge", code: "judge_failed", ...more },
    });
    await body({ ...server, clock, client });
    assert.equal(clock.sleeping, 0, "no timer is left");
  });
}

/** The error of a question, which never shows the key. */
async function errorOf(client: ChatClient): Promise<string> {
  const error = await client.ask(HELLO, never).then(() => null, (error) => error);
  assert.ok(error instanceof ServiceError && error.code === "judge_failed", String(error));
  const shown = Deno.inspect(error, { depth: 10 }) + JSON.stringify(error.details);
  assert.ok(!shown.includes(CANARY) && !shown.includes(CANARY.slice(4, 16)), shown);
  return error.message.replace(/127\.0\.0\.1:\d+/g, "HOST");
}

Deno.test("a question has the model, the messages and the form of the answer; the key is a header alone", async () => {
  const schema = { type: "object" };
  await withClient([() => chatAnswer("hi")], async ({ client, received }) => {
    const tools = [{ type: "function" as const, function: { name: "look" } }];
    const reply = await client.ask(
      { ...HELLO, tools, temperature: 0, max_tokens: 7, response_schema: { name: "scores", schema } },
      never,
    );
    assert.deepEqual(reply, {
      content: "hi",
      tool_calls: [],
      finish_reason: "stop",
      usage: { prompt_tokens: 20, completion_tokens: 10 },
    });
    const [{ method, path, headers, body }] = received as [typeof received[0]];
    assert.deepEqual([method, path, headers.get("authorization")], [
      "POST",
      "/v1/chat/completions",
      `Bearer ${CANARY}`,
    ]);
    assert.deepEqual(body, {
      ...{ model: "judge-1", messages: HELLO.messages, tools, temperature: 0, max_tokens: 7 },
      response_format: { type: "json_schema", json_schema: { name: "scores", schema, strict: true } },
      stream: false,
    });
  });
});

Deno.test("a conversation with calls is sent as a strict endpoint takes it", () =>
  withClient([() => chatAnswer("done")], async ({ client, received }) => {
    const call = (id: string, given: string | Record<string, unknown>) => ({
      id,
      function: { name: "look", arguments: given },
    });
    const result = (tool_call_id: string) => ({ role: "tool" as const, content: "", tool_call_id });
    await client.ask({
      messages: [
        ...HELLO.messages,
        { role: "assistant", content: "", tool_calls: [call("a", { x: 1 }), call("b", '{"x": 2}')] },
        ...[result("b"), result("a")],
        { role: "assistant", content: "Again.", tool_calls: [call("a", {})] },
        ...[result("a"), { role: "assistant" as const, content: null }, ...HELLO.messages],
      ],
    }, never);
    const sent = (id: string, given: string) => ({
      ...{ id, type: "function", function: { name: "look", arguments: given } },
    });
    assert.deepEqual(received[0]!.body.messages, [
      ...HELLO.messages,
      {
        role: "assistant",
        content: null,
        tool_calls: [sent("call00000", '{"x":1}'), sent("call00001", '{"x": 2}')],
      },
      { role: "tool", content: "", tool_call_id: "call00001" },
      { role: "tool", content: "", tool_call_id: "call00000" },
      { role: "assistant", content: "Again.", tool_calls: [sent("call00002", "{}")] },
      { role: "tool", content: "", tool_call_id: "call00002" },
      { role: "assistant", content: "" },
      ...HELLO.messages,
    ]);
  }));

Deno.test("without a key there is no header for it", () =>
  withClient([() => chatAnswer("hi")], async ({ client, received }) => {
    await client.ask(HELLO, never);
    assert.equal(received[0]!.headers.get("authorization"), null);
  }, { key: null }));

Deno.test("calls of tools, text in parts and unusual counts are read", async () => {
  const calls = [{ id: "1", type: "function", function: { name: "look", arguments: '{"at":1}' } }];
  const parts = [{ type: "text", text: "a" }, { type: "image" }, { type: "text", text: "b" }];
  const answers: Behaviour[] = [
    () => chatAnswer(null, { message: { content: null, tool_calls: calls }, finish_reason: "tool_calls" }),
    () => chatAnswer(parts, { finish_reason: "length" }),
    () => Response.json({ choices: [{ message: {} }], usage: { prompt_tokens: -1, completion_tokens: "x" } }),
  ];
  await withClient(answers, async ({ client }) => {
    const called = await client.ask(HELLO, never);
    assert.deepEqual([called.content, called.tool_calls, called.finish_reason], [null, calls, "tool_calls"]);
    const text = await client.ask(HELLO, never);
    assert.deepEqual([text.content, text.finish_reason], ["ab", "length"]);
    const empty = await client.ask(HELLO, never);
    assert.deepEqual(empty, {
      ...{ content: null, tool_calls: [], finish_reason: null },
      usage: { prompt_tokens: 0, completion_tokens: 0 },
    });
  });
});

Deno.test("busy and broken endpoints are asked again after growing waits, and the number of attempts is bounded", async () => {
  for (const code of [408, 429, 500, 503]) {
    await withClient([refusing(code)], async ({ client, received, clock }) => {
      assert.equal(
        await errorOf(client),
        `Cannot ask the judge at http://HOST: it answers with status ${code}: busy, after 4 attempts`,
      );
      assert.equal(received.length, 4);
      // Between half and all of 1, 2 and 4 seconds.
      assert.deepEqual(clock.waits.map((ms, i) => ms >= 500 * 2 ** i && ms < 1000 * 2 ** i), [
        true,
        true,
        true,
      ]);
    });
  }
});

Deno.test("the waits are a function of the seed and the question", async () => {
  const waits: number[][] = [];
  for (const seed of [1, 1, 2]) {
    await withClient([refusing(500)], async ({ client, clock }) => {
      await errorOf(client);
      waits.push(clock.waits);
    }, { seed });
  }
  assert.deepEqual(waits[0], waits[1]);
  assert.notDeepEqual(waits[0], waits[2]);
});

Deno.test("Retry-After is followed as seconds and as a date, up to MAX_RETRY_WAIT_MS", async () => {
  const clock = new WaitsClock(TIMEOUT_MS);
  // The clock is 5 s further when the date arrives.
  const in_12_s = new Date(clock.wall_ms() + 17_000).toUTCString();
  // By header; null: the client's own wait.
  const waits: Record<string, number | null> = {
    ...{ "0": null, "5": 5000, [in_12_s]: 12_000, "Thu, 01 Jan 1970 00:00:00 GMT": null },
    ...Object.fromEntries(
      ["60", "61", "9999999999", "9".repeat(400), "Fri, 31 Dec 9999 23:59:59 GMT"].map((
        much,
      ) => [much, MAX_RETRY_WAIT_MS]),
    ),
    ...{ "soon": null, "-5": null, "1.5": null, "5 seconds": null, "1e3": null },
    ...{ "2026-01-01T00:00:00Z": null, "Fri, 99 Abc 2026 00:00:00 GMT": null },
  };
  const start = clock.wall_ms();
  for (const [retry_after, expected_ms] of Object.entries(waits)) {
    clock.jump(start + 5000 - clock.wall_ms());
    clock.waits.length = 0;
    await withClient(
      [refusing(429, { headers: { "retry-after": retry_after } }), () => chatAnswer("hi")],
      async ({ client }) => {
        assert.equal((await client.ask(HELLO, never)).content, "hi");
      },
      { clock },
    );
    const [ms, ...others] = clock.waits as [number];
    const is_right = expected_ms === null ? ms >= 500 && ms < 1000 : ms === expected_ms;
    assert.ok(is_right && others.length === 0, `${retry_after}: ${clock.waits}`);
  }
});

Deno.test("an endpoint that hangs, or sends a byte a second, is left at the limit of an attempt", async () => {
  const clock = new WaitsClock(TIMEOUT_MS);
  for (const way of [late(clock), dripping(clock)]) {
    await withClient([way], async ({ client, received }) => {
      const started = clock.monotonic_ms();
      assert.equal(
        await errorOf(client),
        "Cannot ask the judge at http://HOST: there was no whole answer within 20 s, after 2 attempts",
      );
      assert.equal(received.length, 2);
      assert.ok(clock.monotonic_ms() - started <= 2 * (TIMEOUT_MS + 2000) + MAX_RETRY_WAIT_MS);
    }, { clock, max_retries: 1 });
  }
});

Deno.test("answers that are no answer are errors at once", async () => {
  const html = () => new Response("<!doctype html><p>log in", { headers: { "content-type": "text/html" } });
  const cases: [Behaviour, RegExp][] = [
    [html, /the answer is a page of HTML; check base_url$/],
    [() => new Response("<html>"), /the answer is a page of HTML/],
    [() => new Response('{"choices": [{"mess'), /the answer is not JSON \(.*\)$/],
    [() => new Response("[".repeat(100) + "]".repeat(100)), /the answer is not JSON \(nested more than 64/],
    [() => Response.json([1]), /the answer is no JSON object$/],
    [() => Response.json({ choices: [] }), /the answer has no message$/],
    [() => Response.json({ error: { message: "no credit" } }), /the answer is an error: no credit$/],
    [
      () => chatAnswer(null, { message: { tool_calls: [{ function: {} }] } }),
      /the answer has a call of another form$/,
    ],
    [refusing(404), /it answers with status 404: busy$/],
    [() => new Response(null, { status: 400 }), /it answers with status 400$/],
  ];
  for (const [behave, message] of cases) {
    await withClient([behave], async ({ client, received }) => {
      assert.match(await errorOf(client), message);
      assert.equal(received.length, 1);
    });
  }
});

Deno.test("a redirect is not followed", async () => {
  await withClient([() => chatAnswer("stolen")], async ({ base_url, received: elsewhere }) => {
    const location = `${base_url}/elsewhere`;
    const redirect = () => new Response(null, { status: 307, headers: { location } });
    await withClient([redirect], async ({ client }) => {
      assert.equal(
        await errorOf(client),
        "Cannot ask the judge at http://HOST: it redirects (status 307), which is not followed; set base_url to " +
          "the final address",
      );
    });
    assert.equal(elsewhere.length, 0);
  });
});

Deno.test("a large answer is cut off, also when it is small on the wire", async () => {
  const plain = () => new Response("x".repeat(MAX_ANSWER_BYTES + 1));
  for (const large of [plain, bomb]) {
    await withClient([large], async ({ client, received }) => {
      assert.match(await errorOf(client), /: the answer is larger than 4194304 bytes$/);
      assert.equal(received.length, 1);
    });
  }
});

Deno.test("a lost connection is tried again", async () => {
  using listener = Deno.listen({ port: 0, hostname: "127.0.0.1" });
  const clock = new WaitsClock(TIMEOUT_MS);
  const serving = (async () => {
    for (const answer of ["", "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{"]) {
      using connection = await listener.accept();
      await connection.read(new Uint8Array(1 << 16));
      await connection.write(new TextEncoder().encode(answer));
    }
  })();
  const client = new ChatClient({
    ...{ base_url: `http://127.0.0.1:${listener.addr.port}`, model: "m", key: CANARY, seed: 1 },
    ...{ timeout_ms: TIMEOUT_MS, max_retries: 1, clock, name: "the judge", code: "judge_failed" },
  });
  assert.match(await errorOf(client), /^Cannot ask the judge at http:\/\/HOST: .+, after 2 attempts$/);
  await serving;
});

Deno.test("nobody at the address is a failure with its reason, without the address's path", async () => {
  const port = Deno.listen({ port: 0, hostname: "127.0.0.1" });
  const base_url = `http://127.0.0.1:${port.addr.port}/secret-path`;
  port.close();
  const clock = new WaitsClock(TIMEOUT_MS);
  const client = new ChatClient({
    ...{ base_url, model: "m", key: CANARY, seed: 1, timeout_ms: TIMEOUT_MS, max_retries: 0 },
    ...{ clock, name: "the judge", code: "judge_failed" },
  });
  const message = await errorOf(client);
  assert.match(message, /^Cannot ask the judge at http:\/\/HOST: .*refused/);
  assert.ok(!message.includes("secret-path"), message);
});

Deno.test("parts that an endpoint refuses are left out from then on", async () => {
  const refuse = (message: string) => () => Response.json({ error: { message } }, { status: 400 });
  const answers = [
    refuse("Unsupported value: 'temperature'"),
    refuse("unknown field"),
    () => chatAnswer("hi"),
  ];
  await withClient(answers, async ({ client, received }) => {
    const question = { ...HELLO, temperature: 0, response_schema: { name: "x", schema: {} } };
    await client.ask(question, never);
    await client.ask(question, never);
    const parts = received.map(({ body }) => ["temperature" in body, "response_format" in body]);
    assert.deepEqual(parts, [[true, true], [false, true], [false, false], [false, false]]);
  });
  await withClient([refuse("no")], async ({ client }) => {
    const message = await errorOf(client);
    assert.match(message, /it answers with status 400: no$/);
  });
});

Deno.test("an endpoint that repeats the key is quoted without it", async () => {
  const echoes: Behaviour[] = [
    () => Response.json({ error: { message: `bad key ${CANARY}` } }, { status: 400 }),
    () => Response.json({ error: `your key ${CANARY.slice(3, 30)}***` }, { status: 404 }),
    () => Response.json({ error: CANARY }, { status: 401 }),
    () =>
      Response.json({ error: { message: `${"x".repeat(MAX_QUOTED_CHARS - 20)}${CANARY}` } }, { status: 400 }),
    () => new Response(`{${CANARY}`),
  ];
  for (const echo of echoes) await withClient([echo], async ({ client }) => void await errorOf(client));
  const escaped = `{"choices":[{"message":{"content":"\\u0073${CANARY.slice(1)}!"}}]}`;
  await withClient([() => new Response(escaped)], async ({ client }) => {
    assert.equal((await client.ask(HELLO, never)).content, "[key]!");
  });
});

Deno.test("a message of an endpoint is one short line", async () => {
  const long = () =>
    Response.json({ error: { message: `a\nb\x1b[31m${"x".repeat(1000)}` } }, { status: 400 });
  await withClient([long], async ({ client }) => {
    const message = await errorOf(client);
    assert.ok(message.length < 400 && message.includes("a⏎b�[31mxx") && message.endsWith("x…"), message);
  });
});

Deno.test("a cancelled question ends at once, while it is sent and while it waits", async () => {
  const stop = new AbortController();
  const sent: Behaviour = (_, signal) => (stop.abort(new Error("stopped")), hanging(signal));
  await withClient([sent], async ({ client }) => {
    await assert.rejects(client.ask(HELLO, stop.signal), /stopped/);
    await assert.rejects(client.ask(HELLO, stop.signal), /stopped/);
  });
});

Deno.test("only so many questions are sent at once", async () => {
  let open = 0, most = 0;
  const all = Promise.withResolvers<void>();
  const counting: Behaviour = async () => {
    most = Math.max(most, ++open);
    if (open === MAX_REQUESTS_AT_ONCE) all.resolve();
    await all.promise;
    open--;
    return chatAnswer("hi");
  };
  await withClient([counting], async ({ client }) => {
    const count = MAX_REQUESTS_AT_ONCE * 2;
    await Promise.all(Array.from({ length: count }, () => client.ask(HELLO, never)));
    assert.equal(most, MAX_REQUESTS_AT_ONCE);
  });
});

Deno.test("an endpoint that names the limit of tokens otherwise gets it so, and never a question without it", () => {
  const other: Behaviour = ({ body }) =>
    "max_tokens" in body
      ? Response.json({ error: { message: "use 'max_completion_tokens' in place of 'max_tokens'" } }, {
        status: 400,
      })
      : chatAnswer("hi");
  return withClient([other], async ({ client, received }) => {
    for (let i = 0; i < 2; i++) await client.ask({ ...HELLO, max_tokens: 7 }, never);
    const limits = received.map(({ body }) => [body.max_tokens, body.max_completion_tokens]);
    assert.deepEqual(limits, [[7, undefined], [undefined, 7], [undefined, 7]]);
    const unlimited = client.ask(HELLO, never);
    assert.equal((await unlimited).content, "hi");
  });
});
