/** The framework's behaviour for all routes, with a table of its own. */

import assert from "node:assert/strict";
import { z } from "zod";
import { ServiceError } from "../core/errors.ts";
import { check } from "./http/issues.ts";
import { conflict, notFound } from "./http/problems.ts";
import { empty, json, raw, type Route, route } from "./routing/route.ts";
import { testApp, testRequest } from "./app_testing.ts";

const JSON_TYPE = "application/json";
const whole = z.string().regex(/^\d+$/).transform(Number).pipe(z.int().gte(1).lte(500));
const order: string[] = [];

const makeThing = route({
  method: "POST",
  path: "/v1/things/{id}",
  operation: "make_thing",
  summary: "Makes a thing.",
  query: z.strictObject({ limit: whole.default(50), name: z.string().optional() }),
  body: {
    limit: "max_body_bytes",
    content: {
      [JSON_TYPE]: z.strictObject({
        count: z.int().gte(1),
        inner: z.strictObject({ lr: z.number() }).optional(),
      }),
      "application/toml": z.string(),
    },
  },
  answers: {
    201: {
      description: "Made.",
      content: { [JSON_TYPE]: z.strictObject({ id: z.string(), count: z.number(), limit: z.number() }) },
      headers: { Location: "Where it is." },
    },
  },
  problems: { conflict: ["conflict"] },
  find: ({ id }) => {
    if (id === "none") throw notFound("There is no such thing");
    return Promise.resolve(id.toUpperCase());
  },
  async handler({ params, query, body, found }) {
    order.push("handler");
    if (found === "TAKEN") throw conflict("The thing is taken");
    const count = body.content_type === JSON_TYPE
      ? body.value.count
      : (await new Response(body.stream).text()).length;
    const headers = { location: `/v1/things/${params.id}` };
    return { ...json(201, { id: found, count, limit: query.limit }), headers };
  },
});

/** A route that does not do what its entry declares. */
function liar(path: string, handler: Route["handler"]): Route {
  const content = { [JSON_TYPE]: z.strictObject({ ok: z.boolean() }) };
  const answers = { 200: { description: "Ok.", content } };
  return {
    method: "GET",
    path,
    operation: path.slice(4),
    summary: "Lies.",
    answers,
    handler,
  };
}

/** A stream that declares one event. */
function streams(path: `/v1/${string}`, text: string): Route {
  const content = { "text/event-stream": z.string() }, events = { state: z.strictObject({ n: z.int() }) };
  return route({
    method: "GET",
    path,
    operation: path.slice(4),
    summary: "Streams.",
    answers: { 200: { description: "Events.", content, events } },
    handler: () => raw(200, "text/event-stream", text),
  });
}

const routes = [
  makeThing,
  route({
    method: "POST",
    path: "/v1/bare",
    operation: "bare",
    summary: "Takes no body.",
    answers: { 204: { description: "Done." } },
    handler: () => empty(204),
  }),
  liar("/v1/more", () => json(200, { ok: true, more: 1 })),
  liar("/v1/other_status", () => json(202, { ok: true })),
  liar("/v1/other_type", () => ({ status: 200, content_type: "text/csv", body: "a,b" })),
  liar("/v1/undeclared", () => {
    throw conflict("No entry says so");
  }),
  liar("/v1/more_headers", () => ({ ...json(200, { ok: true }), headers: { "x-more": "1" } })),
  liar("/v1/reads_header", ({ request }) => json(200, { ok: request.headers.get("if-match") === null })),
  streams("/v1/other_event", 'event: gone\ndata: {"n":1}\n\n'),
  streams("/v1/other_data", 'event: state\ndata: {"n":1}\n\nevent: state\ndata: {"n":"a\u2028"}\n\n'),
  streams("/v1/declared_event", 'id: 1\nevent: state\ndata: {"n":1}\n\n:\n\n'),
  liar("/v1/broken", () => {
    throw new ServiceError("path_not_found", "Cannot read /srv/secret: there is no such file");
  }),
];

const labelled = { "content-type": JSON_TYPE };
const post = (body: string, headers: Record<string, string> = labelled) => ({
  method: "POST",
  body,
  headers,
});

/** The entries of a refusal as `pointer code`. */
async function entries(target: string, body: string, headers?: Record<string, string>): Promise<string[]> {
  const { json, status } = await testApp({ routes }).send(target, post(body, headers));
  return [
    String(status),
    ...json.errors.map(({ pointer, code }: Record<string, string>) => `${pointer} ${code}`),
  ];
}

Deno.test("a handler gets the parsed values of path, query and body", async () => {
  const { send } = testApp({ routes });
  const made = await send("/v1/things/a%20b?limit=7", post('\ufeff{"count":3}'));
  assert.deepEqual([made.status, made.json], [201, { id: "A B", count: 3, limit: 7 }]);
  assert.equal(made.headers.location, "/v1/things/a b");
  const toml = await send("/v1/things/x", post("count = 3", { "content-type": "application/toml" }));
  assert.deepEqual(toml.json, { id: "X", count: 9, limit: 50 });
});

Deno.test("all problems of query and body are listed at their places", async () => {
  assert.deepEqual(
    await entries("/v1/things/x?limit=501&nmae=a", '{"count":0,"inner":{"lr":"1","x":1},"conut":1}'),
    [
      "422",
      "/query/nmae unknown_field",
      "/query/limit out_of_range",
      "/count out_of_range",
      "/inner/lr invalid_value",
      "/inner/x unknown_field",
      "/conut unknown_field",
    ],
  );
  assert.deepEqual(await entries("/v1/things/x?limit=1&limit=2", "{}"), [
    "422",
    "/query/limit invalid_value",
    "/count missing_field",
  ]);
  assert.deepEqual(await entries("/v1/things/x", "{"), ["422", " invalid_value"]);
});

Deno.test("a hint names a field within two edits", async () => {
  const { send } = testApp({ routes });
  const { json } = await send("/v1/things/x?nmae=a&zzzzz=1", post('{"count":1,"inner":{"rl":1,"lr":1}}'));
  assert.deepEqual(json.errors.map(({ hint }: { hint?: string }) => hint), [
    'did you mean "name"?',
    undefined,
    'did you mean "lr"?',
  ]);
});

Deno.test("of very many unknown fields only those that are listed are compared with known ones", async () => {
  const { send } = testApp({ routes });
  const fields = Array.from({ length: 9000 }, (_, i) => `"coun${String.fromCodePoint(0x4e00 + i)}":1`);
  const { json } = await send("/v1/things/x", post(`{"count":1,${fields.join()}}`));
  assert.equal(json.errors.length, 200);
  assert.ok(json.errors.every(({ hint }: { hint: string }) => hint === 'did you mean "count"?'));
  assert.match(json.detail, /, and 8999 more$/);
  const { errors } = check({
    schema: z.strictObject({ count: z.int() }),
    value: { count: 1, ...JSON.parse(`{${fields.join()}}`) },
    prefix: "",
  });
  assert.equal(errors.filter(({ hint }) => hint !== undefined).length, 200);
  const long = await send("/v1/things/x", post(`{"count":1,"${"count".repeat(200)}":1}`));
  assert.deepEqual([long.json.errors[0].code, long.json.errors[0].hint], ["unknown_field", undefined]);
});

Deno.test("a signature is ignored, and any other parameter of a route without parameters is refused", async () => {
  const { send } = testApp();
  assert.equal((await send("/v1/health?exp=1&sig=x")).status, 200);
  assert.equal((await send("/healthz?x=1")).status, 200);
  const { status, json } = await send("/v1/health?verbose=1");
  assert.deepEqual([status, json.errors[0].pointer, json.errors[0].code], [
    422,
    "/query/verbose",
    "unknown_field",
  ]);
});

Deno.test("types of body: JSON types, only UTF-8, no content encoding", async () => {
  const { send } = testApp({ routes });
  const typed = (type: string) => send("/v1/things/x", post('{"count":1}', { "content-type": type }));
  for (
    const type of [
      "application/json; charset=UTF-8",
      'Application/JSON;charset="utf-8"',
      "application/x+json",
    ]
  ) {
    assert.equal((await typed(type)).status, 201, type);
  }
  for (
    const type of ["", "text/plain", "application/json; charset=latin1", "application/x-www-form-urlencoded"]
  ) {
    const { status, json } = await typed(type);
    assert.deepEqual(
      [status, json.errors[0].pointer, json.errors[0].code],
      [415, "", "unsupported_format"],
      type,
    );
  }
  const packed = { ...labelled, "content-encoding": "gzip" };
  assert.deepEqual(await entries("/v1/things/x", '{"count":1}', packed), ["415", " unsupported_format"]);
  const plain = { ...labelled, "content-encoding": "identity" };
  assert.equal((await send("/v1/things/x", post('{"count":1}', plain))).status, 201);
});

Deno.test("a POST without a declared body is refused with one that is not labelled as JSON", async () => {
  const { send } = testApp({ routes });
  assert.equal((await send("/v1/bare", { method: "POST" })).status, 204);
  assert.equal((await send("/v1/bare", post("{}"))).status, 204);
  assert.equal((await send("/v1/bare", post("a=b", { "content-type": "text/plain" }))).status, 415);
});

Deno.test("a body over the limit is 413, announced or not; one at the limit passes", async () => {
  const toml = "max_body_bytes = 1024";
  const body = (bytes: number) => `{"count":1${" ".repeat(bytes - 11)}}`;
  const { send } = testApp({ routes, toml });
  assert.equal((await send("/v1/things/x", post(body(1024)))).status, 201);
  const announced = { ...labelled, "content-length": "1025" };
  for (const headers of [labelled, announced]) {
    const { status, json } = await send("/v1/things/x", post(body(1025), headers));
    assert.deepEqual([status, json.errors[0].code, json.errors[0].pointer], [413, "out_of_range", ""]);
  }
});

Deno.test("bytes that are not UTF-8 are invalid_value", async () => {
  const { send } = testApp({ routes });
  const body = new Uint8Array([0x22, 0xff, 0x22]);
  const { status, json } = await send("/v1/things/x", { method: "POST", body, headers: labelled });
  assert.deepEqual([status, json.errors[0].code], [422, "invalid_value"]);
});

Deno.test("the first failing check decides: resource, type, size, then contents", async () => {
  const bad = { "content-type": "text/plain", "content-length": "99999999" };
  assert.deepEqual(await entries("/v1/things/none?x=1", "{", bad), ["404", " not_found"]);
  assert.deepEqual(await entries("/v1/things/x?x=1", "{", bad), ["415", " unsupported_format"]);
  assert.deepEqual(await entries("/v1/things/x?x=1", "{", { ...bad, ...labelled }), ["413", " out_of_range"]);
  order.length = 0;
  assert.equal((await entries("/v1/things/taken?x=1", "{"))[0], "422");
  assert.deepEqual(order, [], "the handler is not called");
  assert.deepEqual(await entries("/v1/things/taken", '{"count":1}'), ["409", " conflict"]);
});

Deno.test("an undeclared answer or problem fails its test", async () => {
  const { send } = testApp({ routes });
  const cases: [string, RegExp][] = [
    ["/v1/more", /answers what its schema does not allow/],
    ["/v1/other_status", /does not declare the status 202/],
    ["/v1/other_type", /does not declare the type text\/csv/],
    ["/v1/undeclared", /does not declare the problem conflict/],
    ["/v1/more_headers", /sends headers that it does not declare/],
    ["/v1/reads_header", /reads request headers that its route does not declare/],
    ["/v1/other_event", /does not declare the event gone/],
    ["/v1/other_data", /sends as state what its schema does not allow/],
  ];
  for (const [target, message] of cases) await assert.rejects(send(target), { message });
  assert.equal((await send("/v1/declared_event")).status, 200);
});

Deno.test("an operating failure that no handler names is the server's own, and its text stays in the log", async () => {
  const { send, logged } = testApp({ routes });
  const { status, body } = await send("/v1/broken?", { hosts: ["localhost"] });
  assert.equal(status, 500);
  assert.ok(!body.includes("secret"));
  const { method, path, peer } = logged[0]!;
  assert.deepEqual({ method, path, peer }, { method: "GET", path: "/v1/broken", peer: "127.0.0.1:1" });
});

Deno.test("HEAD cancels a stream", async () => {
  let cancelled = false;
  const body = () => new ReadableStream({ cancel: () => void (cancelled = true) });
  const stream = liar("/v1/stream", () => ({ status: 200, content_type: JSON_TYPE + "-seq", body: body() }));
  const { app } = testApp({ routes: [stream] });
  const answer = await app.handle(...testRequest("/v1/stream", { method: "HEAD" }));
  assert.deepEqual([answer.status, answer.body, cancelled], [200, null, true]);
});

Deno.test("work that a client has left is not logged as a failure", async () => {
  const controller = new AbortController();
  const waits = liar("/v1/waits", ({ request }) =>
    new Promise((_, reject) => {
      request.signal.addEventListener("abort", () => reject(request.signal.reason));
      controller.abort();
    }));
  const { app, logged } = testApp({ routes: [waits] });
  await app.handle(...testRequest("/v1/waits", { signal: controller.signal }));
  assert.deepEqual(logged, []);
});

Deno.test("what a value must be is said at its place in JSON's words, in the form of a union that is meant", () => {
  const other = z.strictObject({ name: z.string(), size: z.int().optional() });
  const schema = z.strictObject({
    targets: z.union([z.literal("all"), z.array(z.enum(["q_proj", "k_proj"])).min(1)]),
    tool: z.union([z.strictObject({ type: z.literal("function"), id: z.string() }), other]),
    turn: z.discriminatedUnion("role", [z.strictObject({ role: z.literal("user"), content: z.string() })]),
    mode: z.enum(["boundary", "now"]),
    count: z.int(),
    names: z.array(z.string().min(1).max(3)).min(2).max(3),
    box: z.strictObject({}),
    own: z.string({ error: "is the operator's" }),
  }).partial();
  const cases: [value: object, ...entries: string[]][] = [
    [{ targets: 5 }, '/targets must be "all" or a list, not 5'],
    [{ targets: [] }, "/targets must not be empty"],
    [
      { targets: ["q_proj", "k_pro"] },
      '/targets/1 must be "q_proj" or "k_proj"; did you mean "k_proj"?',
    ],
    [{ tool: null }, "/tool must be an object, not null"],
    [{ tool: {} }, "/tool/name is missing"],
    [{ tool: { name: "a", size: "b" } }, "/tool/size must be a number, not a string"],
    [{ tool: { type: "function" } }, "/tool/id is missing"],
    [{ turn: { role: "usr" } }, '/turn/role must be "user"; did you mean "user"?'],
    [{ turn: { content: "" } }, "/turn/role is missing"],
    [{ mode: "later" }, '/mode must be "boundary" or "now"'],
    [{ count: 1.5 }, "/count must be an integer, not 1.5"],
    [{ names: ["a", ""] }, "/names/1 must not be empty"],
    [
      { names: ["abcd"] },
      "/names must have at least 2 entries",
      "/names/0 must have at most 3 characters",
    ],
    [{ box: [] }, "/box must be an object, not a list"],
    [{ box: 1, own: 2 }, "/box must be an object, not 1", "/own is the operator's"],
    [{ mode: "\u{1f600}".repeat(1e6) }, '/mode must be "boundary" or "now"'],
  ];
  for (const [value, ...entries] of cases) {
    const { errors } = check({ schema, value, prefix: "" });
    const found = errors.map(({ pointer, message, hint }) =>
      `${pointer} ${message}${hint === undefined ? "" : `; ${hint}`}`
    );
    assert.deepEqual(found.sort(), entries.sort());
  }
});

Deno.test("very many wrong values are counted, and those that are listed have words", () => {
  const schema = z.strictObject({ stop: z.union([z.string(), z.array(z.string())]) });
  const { errors } = check({ schema, value: { stop: Array(9000).fill(1) }, prefix: "" });
  const words = errors.slice(0, 200).map(({ message }) => message);
  assert.deepEqual([errors.length, new Set(words)], [9000, new Set(["must be a string, not 1"])]);
  assert.equal(errors[8999]!.pointer, "/stop/8999");
  const list = z.array(z.string());
  const { errors: flat } = check({ schema: list, value: Array(9000).fill(1), prefix: "" });
  assert.deepEqual([flat.length, flat[199]!.message, flat[8999]!.message], [
    9000,
    "must be a string, not 1",
    "is not valid",
  ]);
});
