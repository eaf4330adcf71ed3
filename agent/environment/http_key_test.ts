/** The key of an environment server: it is sent, and shown nowhere. */

import { deepEqual, equal, match, ok, rejects } from "node:assert/strict";
import { MIN_PART_CHARS } from "../../core/chat_api/redact.ts";
import { ManualClock } from "../../core/clock_fake.ts";
import { ServiceError } from "../../core/errors.ts";
import { parseScenario } from "../../data/scenario.ts";
import type { EnvironmentFactory } from "./environment.ts";
import { httpEnvironments } from "./http.ts";
import { type FakeServer, fakeServer, type GotRequest } from "./http_server_fake.ts";

const never = new AbortController().signal;
const SCENARIO = parseScenario({ id: "s", user: "u" }, { path: "x", line: 1 });
const open = (factory: EnvironmentFactory) => factory.open(SCENARIO, { seed: 7, signal: never });
const CALL = { id: "c", name: "t", arguments: {} };

type Answers = Parameters<typeof fakeServer>[0];
interface Used {
  factory: EnvironmentFactory;
  server: FakeServer;
}

const CANARY = "sk-canary-0123456789abcdefghijklmnopqrstuvwxyz", KEY_VARIABLE = "SVC_TEST_ENVIRONMENT_KEY";

/** Runs a test with environments whose server wants the canary as its key. */
async function keyed(answers: Answers, use: (used: Used) => Promise<void>): Promise<void> {
  const server = fakeServer(answers), clock = new ManualClock(), { base_url } = server;
  const limits = { exec_timeout_secs: 30 };
  const factory = httpEnvironments({ base_url, api_key_env: KEY_VARIABLE, limits, clock });
  Deno.env.set(KEY_VARIABLE, CANARY);
  try {
    await use({ factory, server });
    for (const { headers } of server.requests) equal(headers.get("authorization"), `Bearer ${CANARY}`);
  } finally {
    Deno.env.delete(KEY_VARIABLE);
    await factory.close();
    await server.end();
  }
}

/** Fails for a text with a part of the canary that is long enough to be worth something. */
function hasNoCanary(text: string): void {
  for (let i = 0; i + MIN_PART_CHARS <= CANARY.length; i++) {
    ok(!text.includes(CANARY.slice(i, i + MIN_PART_CHARS)), text.slice(-300));
  }
}

/** The same, for a text in which the canary was. */
function hidesCanary(text: string): void {
  hasNoCanary(text);
  match(text, /\[key\]/);
}

/** All of an error, with its causes and details. */
const wholeError = (error: unknown) => {
  ok(error instanceof ServiceError && error.code === "environment_failed", String(error));
  return Deno.inspect(error, { depth: 20, strAbbreviateSize: Infinity, iterableLimit: Infinity });
};

Deno.test("the key is a bearer token of each request, and in no answer that repeats it", async () => {
  const said = `you sent ${CANARY}`;
  await keyed({
    "/tools": () =>
      Response.json({ tools: [{ name: "t", description: said, inputSchema: { title: said } }] }),
    "/reset": () => Response.json({ env_id: `id ${CANARY}`, observation: { [said]: [said] } }),
    "/step": ({ earlier }) =>
      Response.json({ result: earlier === 0 ? said : { said }, reward: null, done: false }),
    "/state": () => Response.json([said]),
  }, async ({ factory, server }) => {
    const environment = await open(factory);
    hidesCanary(JSON.stringify(await factory.catalogs(never)));
    hidesCanary(JSON.stringify(environment.observation));
    for (let i = 0; i < 2; i++) hidesCanary((await environment.call(CALL, never)).result!);
    hidesCanary(JSON.stringify(await environment.state(never)));
    await environment.close();
    const ids = server.requests.flatMap(({ body }) => body?.env_id ?? []);
    deepEqual(ids, Array(3).fill(`id ${CANARY}`), "the server gets its own id");
  });
});

/** Answers that repeat the key where an error is cut, or where it quotes a field. */
const LEAKS: Record<string, (key: string) => Response> = {
  "a long text": (key) => new Response("x".repeat(380) + key, { status: 500 }),
  "a long content type": (key) =>
    new Response("", { headers: { "content-type": `${"x".repeat(85)}${key}${"y".repeat(99)}` } }),
  "a wrong value": (key) => Response.json({ tools: key, env_id: [key], result: 1, reward: key, done: key }),
  "a wrong id": (key) => Response.json({ env_id: key.repeat(10) }),
  "a wrong schema": (key) => Response.json({ tools: [{ name: "t", inputSchema: { $ref: `#/${key}` } }] }),
};

for (const [what, leak] of Object.entries(LEAKS)) {
  Deno.test(`no part of the key is in an error about ${what}`, async () => {
    const echo = ({ headers }: GotRequest) => leak(headers.get("authorization")!.replace("Bearer ", ""));
    const errors: string[] = [];
    const note = (work: Promise<unknown>) =>
      work.then(() => {}, (error) => void errors.push(wholeError(error)));
    await keyed({ "/tools": echo, "/reset": echo }, async ({ factory }) => {
      await note(factory.catalogs(never));
      await note(open(factory));
    });
    await keyed({ "/step": echo, "/state": echo }, async ({ factory }) => {
      const environment = await open(factory);
      await note(environment.call(CALL, never));
      await note(environment.state(never));
      await environment.close();
    });
    for (const text of errors) hasNoCanary(text);
    ok(errors.some((text) => text.includes("[ke")), errors.join());
    if (what === "a long content type") match(errors[0]!, /"x{85}\[key\]y{10}", not application\/json/);
  });
}

Deno.test("a key that is not set is an error with its variable, before any request", () =>
  keyed({}, async ({ factory, server }) => {
    Deno.env.delete(KEY_VARIABLE);
    await rejects(factory.catalogs(never), {
      code: "config_invalid",
      message: `Cannot ask the environment server: the environment variable ${KEY_VARIABLE} is not set; ` +
        "set it to the key, or leave agent.environment.api_key_env out",
      details: { config_key: "agent.environment.api_key_env", variable: KEY_VARIABLE },
    });
    deepEqual(server.requests, []);
  }));
