import { deepEqual, equal, match, notEqual, ok, rejects } from "node:assert/strict";
import { ManualClock } from "../../core/clock_fake.ts";
import { parseScenario } from "../../data/scenario.ts";
import { FILES_TOOLSET } from "../tools/builtin/files.ts";
import { checkCall } from "../tools/toolset.ts";
import type { EnvironmentFactory } from "./environment.ts";
import { environmentContract, TOOL_CHECKS } from "./environment_contract.ts";
import { CALL_MARGIN_MS, httpEnvironments } from "./http.ts";
import { MAX_ENV_ID_CHARS, MAX_SERVER_TOOLS, MAX_STEP_REWARD } from "./http_answers.ts";
import { type FakeServer, fakeServer, filesServer, hang, mcpTools } from "./http_server_fake.ts";
import { CLOSE_LIMIT_MS, LATE_RESET_MS } from "./http_server.ts";

const never = new AbortController().signal;
const LIMITS = { exec_timeout_secs: 30 };

environmentContract({ name: "http", checks: TOOL_CHECKS }, async () => {
  const directory = await Deno.makeTempDir(), clock = new ManualClock();
  const server = filesServer({ directory, clock });
  const factory = httpEnvironments({ base_url: server.base_url, limits: LIMITS, clock });
  return {
    ...{ factory, clock },
    async leftovers() {
      const folders = (await Array.fromAsync(Deno.readDir(directory))).map(({ name }) => name);
      return [...folders, ...server.live.keys(), ...Array(clock.sleeping).fill("a timer")];
    },
    async end() {
      await server.end();
      await Deno.remove(directory, { recursive: true });
    },
  };
});

type Answers = Parameters<typeof fakeServer>[0];
interface Used {
  factory: EnvironmentFactory;
  server: FakeServer;
  clock: ManualClock;
}

/** Registers a test of environments behind a server with these answers; nothing stays open. */
function httpTest(name: string, answers: Answers, use: (used: Used) => Promise<void>): void {
  Deno.test({
    name,
    sanitizeResources: true,
    sanitizeOps: true,
    async fn() {
      const server = fakeServer(answers), clock = new ManualClock();
      const factory = httpEnvironments({ base_url: `${server.base_url}/`, limits: LIMITS, clock });
      try {
        await use({ factory, server, clock });
        await factory.close();
        equal(clock.sleeping, 0, "no timer stays");
      } finally {
        await factory.close();
        await server.end();
      }
    },
  });
}

const SCENARIO = parseScenario(
  { id: "s", user: "u", system: "y", metadata: { rubric: "r", own: [1, { a: null }] } },
  { path: "x", line: 3 },
);
const open = (factory: EnvironmentFactory, signal = never) => factory.open(SCENARIO, { seed: 7, signal });
const call = (name: string, args: Record<string, unknown> = {}) => ({
  id: "call_0_0",
  name,
  arguments: args,
});
const json = (value: unknown, status = 200) => () => Response.json(value, { status });
const step = (result: unknown, reward: unknown = null, done: unknown = false) => ({
  "/step": json({ result, reward, done }),
});

httpTest(
  "every route gets what the protocol says",
  step({ a: [1, "é"] }, 0.5, true),
  async ({ factory, server }) => {
    const environment = await open(factory);
    equal(environment.observation, null);
    deepEqual(await environment.call(call("read_file", { path: "a" }), never), {
      result: '{"a":[1,"é"]}',
      reward: 0.5,
      done: true,
    });
    deepEqual(await environment.state(never), { value: { left: true } });
    deepEqual(await environment.grade(never), { reward: null, timed_out: false });
    await environment.close();
    await environment.close();
    deepEqual(server.requests.map(({ path, body }) => [path, body]), [
      ["/reset", {
        scenario: { id: "s", user: "u", system: "y", metadata: { rubric: "r", own: [1, { a: null }] } },
        seed: 7,
      }],
      ["/step", { env_id: "env 0/é", call: call("read_file", { path: "a" }) }],
      ["/state/env%200%2F%C3%A9", null],
      ["/close", { env_id: "env 0/é" }],
    ]);
    for (const { headers } of server.requests) {
      equal(headers.get("accept-encoding"), "identity");
      equal(headers.has("cookie"), false);
      equal(headers.has("authorization"), false);
    }
  },
);

httpTest("a server's tools are asked for once, and their version is that of their list", {
  "/tools": json({ tools: mcpTools }),
}, async ({ factory, server }) => {
  const [offered] = await factory.catalogs(never);
  deepEqual(offered!.tools, FILES_TOOLSET.tools);
  deepEqual([offered!.name, offered!.is_default], ["http", true]);
  match(offered!.version, /^[0-9a-f]{16}$/);
  equal((await factory.catalog(SCENARIO, never)).version, offered!.version);
  equal(server.requests.length, 1);
});

const listed = (...tools: unknown[]): Answers => ({ "/tools": json({ tools }) });
const open_ai = {
  type: "function",
  function: { name: "a-b.c/d:e", description: "\ud800!", parameters: { type: "object", properties: {} } },
};

httpTest(
  "tools may have the OpenAI form, and no description or schema",
  listed(open_ai, { name: "bare" }, {
    ...{ name: "nulls", description: null, inputSchema: null },
  }),
  async ({ factory }) => {
    const { tools, version } = await factory.catalog(SCENARIO, never);
    const parameters = { type: "object", properties: {} };
    deepEqual(tools, [
      { name: "a-b.c/d:e", description: "\ufffd!", parameters },
      { name: "bare", description: "", parameters },
      { name: "nulls", description: "", parameters },
    ]);
    const other = fakeServer(listed({ name: "bare" })), clock = new ManualClock();
    const changed = httpEnvironments({ base_url: other.base_url, limits: LIMITS, clock });
    notEqual((await changed.catalog(SCENARIO, never)).version, version);
    await changed.close();
    await other.end();
  },
);

httpTest(
  "arguments are checked against all of a tool's schema, but for what cannot be checked",
  listed({
    name: "t",
    inputSchema: {
      $schema: "http://json-schema.org/draft-07/schema#",
      definitions: { n: { type: "integer", minimum: 1 } },
      properties: { n: { $ref: "#/definitions/n" }, s: { pattern: "^(a+)+$" } },
    },
  }),
  async ({ factory }) => {
    const { tools } = await factory.catalog(SCENARIO, never);
    const check = (args: object) => checkCall(tools, { name: "t", arguments: args });
    equal(check({ n: 0 }), "error: bad arguments at /n");
    equal(check({ n: 1, s: `${"a".repeat(40)}b`, more: 1 }), null);
  },
);

const with_schema = (inputSchema: unknown) => listed({ name: "t", inputSchema });
const wrong_tools: [string, Answers, RegExp][] = [
  ["no list", { "/tools": json({ tools: {} }) }, /a wrong field: tools: must be a list/],
  ["a tool without a name", listed({ description: "d" }), /wrong field: tools\.0\.name: is missing/],
  ["a name with a space", listed({ name: "a b" }), /a tool's name has up to 128/],
  ["a long name", listed({ name: "a".repeat(129) }), /a tool's name has up to 128/],
  ["two tools of one name", listed({ name: "a" }, { name: "a" }), /two tools with the name "a"$/],
  [
    "too many tools",
    listed(...Array.from({ length: MAX_SERVER_TOOLS + 1 }, (_, i) => ({ name: `t${i}` }))),
    /tools: must be a list of at most 256/,
  ],
  [
    "parameters of another type",
    with_schema({ type: "string" }),
    /the tool t: parameters must have the type "object"/,
  ],
  ["a schema that is a list", with_schema([]), /inputSchema: must be an object/],
  [
    "a type that no schema has",
    with_schema({ properties: { a: { type: "__proto__" } } }),
    /the tool t: its \/properties\/a\/type has no valid value/,
  ],
  ["required names that are no list", with_schema({ required: "a" }), /its \/required has no valid value/],
  [
    "properties that are no schemas",
    with_schema({ properties: { a: null } }),
    /its \/properties\/a is no schema/,
  ],
  [
    "items that are no schema",
    with_schema({ properties: { a: { items: 1 } } }),
    /its \/properties\/a\/items is no schema/,
  ],
  [
    "additional properties that are no schema",
    with_schema({ additionalProperties: null }),
    /its \/additionalProperties is no schema/,
  ],
];

for (const [what, answers, message] of wrong_tools) {
  httpTest(`a catalogue with ${what} is refused`, answers, async ({ factory }) => {
    await rejects(factory.catalogs(never), (error: Error & { code?: string }) => {
      equal(error.code, "environment_failed");
      match(error.message, message);
      ok(error.message.startsWith("Cannot use the environment server http://127.0.0.1:"), error.message);
      return true;
    });
  });
}

const results: [unknown, string | null][] = [
  ["text", "text"],
  ["", ""],
  ["\ud800", "\ufffd"],
  [null, null],
  [0, "0"],
  [false, "false"],
  [[], "[]"],
  [{ b: 1, a: null }, '{"b":1,"a":null}'],
];
for (const [given, shown] of results) {
  httpTest(
    `the result ${JSON.stringify(given)} is shown as ${JSON.stringify(shown)}`,
    step(given),
    async ({ factory }) => {
      const environment = await open(factory);
      equal((await environment.call(call("list_dir", { path: "" }), never)).result, shown);
      await environment.close();
    },
  );
}

const rewards: [unknown, boolean][] = [
  [MAX_STEP_REWARD, true],
  [-MAX_STEP_REWARD, true],
  [0, true],
  [null, true],
  [MAX_STEP_REWARD + 1, false],
  [1e308, false],
  ["1", false],
  [true, false],
  [[1], false],
];
for (const [reward, is_taken] of rewards) {
  httpTest(
    `the reward ${JSON.stringify(reward)} is ${is_taken ? "taken" : "refused"}`,
    step("r", reward),
    async ({ factory }) => {
      const environment = await open(factory);
      const answer = environment.call(call("submit"), never);
      if (is_taken) equal((await answer).reward, reward);
      else {await rejects(answer, {
          code: "environment_failed",
          message: /POST \/step was answered with a wrong field: reward: /,
        });}
      await environment.close();
    },
  );
}

const ids: [unknown, boolean][] = [
  ["x".repeat(MAX_ENV_ID_CHARS), true],
  ["../../x?y#z", true],
  ["x".repeat(MAX_ENV_ID_CHARS + 1), false],
  ["", false],
  ["..", false],
  ["\ud800", false],
  [1, false],
  [null, false],
];
for (const [env_id, is_taken] of ids) {
  const title = JSON.stringify(env_id).slice(0, 20);
  const reset = { "/reset": json({ env_id, observation: null }) };
  httpTest(`the env_id ${title} is ${is_taken ? "taken" : "refused"}`, reset, async ({ factory, server }) => {
    if (!is_taken) {
      return await rejects(open(factory), {
        message: /POST \/reset was answered with a wrong field: env_id: /,
      });
    }
    const environment = await open(factory);
    await environment.state(never);
    equal(server.requests.at(-1)!.path, `/state/${encodeURIComponent(env_id as string)}`);
    await environment.close();
  });
}

httpTest("an id of a live environment is refused, and the live one goes on", {
  "/reset": json({ env_id: "same", observation: 1 }),
}, async ({ factory, server }) => {
  const first = await open(factory);
  await rejects(open(factory), {
    code: "environment_failed",
    message: /the env_id "same" of a live environment$/,
  });
  equal((await first.call(call("submit"), never)).done, true);
  await first.close();
  const again = await open(factory);
  await again.close();
  deepEqual(server.requests.map(({ route }) => route), [
    "/reset",
    "/reset",
    "/step",
    "/close",
    "/reset",
    "/close",
  ]);
});

httpTest("an environment whose reset is otherwise wrong is closed", {
  "/reset": json({ env_id: "made" }),
}, async ({ factory, server }) => {
  await rejects(open(factory), { message: /wrong field: observation: is missing/ });
  await factory.close();
  deepEqual(server.requests.at(-1)!.body, { env_id: "made" });
});

httpTest("an environment is closed that a server names after the time is up, or after an abort", {
  "/reset": async ({ earlier }) => {
    await gates[earlier]!.promise;
    return Response.json({ env_id: `late ${earlier}`, observation: null });
  },
}, async ({ factory, server, clock }) => {
  const late = rejects(open(factory), { message: /POST \/reset got no answer within 30 s; raise / });
  await server.came("/reset");
  await clock.advance(30_000);
  await late;
  const controller = new AbortController();
  const aborted = rejects(open(factory, controller.signal), /enough/);
  await server.came("/reset", 2);
  controller.abort(new Error("enough"));
  await aborted;
  equal(server.requests.length, 2);
  for (const gate of gates) gate.resolve();
  await server.came("/close", 2);
  deepEqual(server.requests.slice(2).map(({ body }) => body.env_id).sort(), ["late 0", "late 1"]);
});
const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];

httpTest("a reset that never answers is given up, and so is a close", {
  "/reset": ({ earlier }, signal) =>
    earlier > 0 ? hang({} as never, signal) : json({ env_id: "a", observation: 0 })(),
  "/close": hang,
}, async ({ factory, server, clock }) => {
  const environment = await open(factory);
  const closing = environment.close();
  await server.came("/close");
  const lost = rejects(open(factory), /within 30 s/);
  await server.came("/reset", 2);
  await clock.advance(CLOSE_LIMIT_MS);
  await closing;
  await clock.advance(30_000 - CLOSE_LIMIT_MS);
  await lost;
  equal(clock.sleeping, 1, "the reset may still name its environment");
  await clock.advance(LATE_RESET_MS);
  equal(clock.sleeping, 0);
});

httpTest(
  "the end of a run waits a while for what is late, and then for nothing",
  { "/reset": hang },
  async (used) => {
    const { factory, server, clock } = used;
    const controller = new AbortController();
    const opening = rejects(open(factory, controller.signal));
    await server.came("/reset");
    controller.abort(new Error("enough"));
    await opening;
    const ended = factory.close();
    await clock.advance(CLOSE_LIMIT_MS);
    await ended;
  },
);

Deno.test("calls take a little longer than requests, so that a server that hangs is the environment's failure", () => {
  const clock = new ManualClock();
  const factory = httpEnvironments({ base_url: "http://127.0.0.1:1", limits: LIMITS, clock });
  equal(factory.call_timeout_ms, 30_000 + CALL_MARGIN_MS);
  equal(factory.coverage(SCENARIO), "some");
});
