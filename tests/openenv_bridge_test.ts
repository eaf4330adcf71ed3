/** Environments of OpenEnv through the bridge, against a server that speaks the messages of its documentation. */

import assert from "node:assert/strict";
import { httpEnvironments } from "../agent/environment/http.ts";
import { systemClock } from "../core/clock.ts";
import { parseScenario } from "../data/scenario.ts";
import { OpenEnvBridge } from "../examples/openenv_bridge.ts";

const never = new AbortController().signal;

/** What the messages mean to an environment; each answers with the data of an observation, or throws. */
interface FakeOpenEnv {
  tools?: object[];
  /** The schema of actions, for an environment without tools. */
  action?: object;
  reset(data: object): object;
  step(data: Record<string, unknown>): object;
}

const serving = { hostname: "127.0.0.1", port: 0, onListen() {} };

/** @source https://github.com/meta-pytorch/OpenEnv, src/openenv/core/env_server/http_server.py and types.py */
function fakeOpenEnv({ tools, action, reset, step }: FakeOpenEnv) {
  /** In the order in which they were opened, with their messages. */
  const sessions: { said: { type: string }[]; closed: Promise<void> }[] = [];
  const failure = (message: string, code: string) => ({ type: "error", data: { message, code } });
  const answer = (message: { type: string; data: Record<string, unknown> }): object | null => {
    switch (message.type) {
      case "reset":
        return { type: "observation", data: reset(message.data) };
      case "state":
        return { type: "state", data: { episode_id: null, step_count: sessions.length } };
      case "close":
        return null;
      case "step": {
        const { type } = message.data;
        if (type !== "list_tools") return { type: "observation", data: step(message.data) };
        if (!tools) return failure("Invalid message", "VALIDATION_ERROR");
        return { type: "observation", data: { observation: { tools }, reward: null, done: false } };
      }
      default:
        return failure(`Unknown message type: ${message.type}`, "UNKNOWN_TYPE");
    }
  };
  const server = Deno.serve(serving, (request) => {
    if (new URL(request.url).pathname === "/base/schema") return Response.json({ action });
    const { socket, response } = Deno.upgradeWebSocket(request);
    const said: { type: string }[] = [], { promise: closed, resolve } = Promise.withResolvers<void>();
    sessions.push({ said, closed });
    socket.onclose = () => resolve();
    socket.onmessage = ({ data }) => {
      const message = JSON.parse(data);
      said.push(message);
      try {
        const answered = answer(message);
        if (answered) socket.send(JSON.stringify(answered));
        else socket.close();
      } catch (error) {
        socket.send(JSON.stringify(failure((error as Error).message, "EXECUTION_ERROR")));
      }
    };
    return response;
  });
  return { server, sessions };
}

/** Uses an environment of OpenEnv through the bridge. */
async function withOpenEnv(
  fake: FakeOpenEnv,
  use: (
    used: ReturnType<typeof fakeOpenEnv> & { factory: ReturnType<typeof httpEnvironments> },
  ) => Promise<void>,
): Promise<void> {
  const openenv = fakeOpenEnv(fake);
  const answering = new OpenEnvBridge(`http://127.0.0.1:${openenv.server.addr.port}/base/`);
  const bridge = Deno.serve(serving, (request) => answering.answer(request));
  const factory = httpEnvironments({
    base_url: `http://127.0.0.1:${bridge.addr.port}`,
    limits: { exec_timeout_secs: 30 },
    clock: systemClock,
  });
  try {
    await use({ ...openenv, factory });
    await Promise.all(openenv.sessions.map(({ closed }) => closed));
    for (const { said } of openenv.sessions) assert.equal(said.at(-1)!.type, "close");
  } finally {
    await factory.close();
    await bridge.shutdown();
    await openenv.server.shutdown();
  }
}

const scenarioOf = (metadata: object) =>
  parseScenario({ id: "s", user: "Add.", metadata }, { path: "x", line: 1 });
const call = (name: string, args: Record<string, unknown>) => ({ id: "call_0_0", name, arguments: args });

Deno.test("an OpenEnv environment with MCP tools is used call by call, in a session of its own", async () => {
  const input_schema = { type: "object", properties: { a: { type: "integer" } }, required: ["a"] };
  let total = 0;
  await withOpenEnv({
    tools: [{ name: "add", description: "Adds.", input_schema }],
    reset: () => ({ observation: { total }, reward: null, done: false }),
    step({ type, tool_name, arguments: given }) {
      assert.equal(type, "call_tool");
      if (tool_name === "fail") {
        return {
          observation: { tool_name, result: null, error: { error_type: "timeout", message: "too slow" } },
        };
      }
      const { a } = given as { a: number };
      if (a < 0) throw new Error("a is below 0");
      total += a;
      const result = a > 5 ? { content: [], data: total } : `${total}`;
      return { observation: { tool_name, result, error: null }, reward: a > 5, done: a > 5 };
    },
  }, async ({ factory, sessions }) => {
    const scenario = scenarioOf({ openenv: { difficulty: 2 } });
    const { tools } = await factory.catalog(scenario, never);
    assert.deepEqual(tools, [{ name: "add", description: "Adds.", parameters: input_schema }]);
    const environment = await factory.open(scenario, { seed: 3, signal: never });
    assert.deepEqual(environment.observation, { total: 0 });
    const answers = [];
    for (const args of [{ a: 2 }, { a: -1 }, { a: 6 }]) {
      const { result, reward, done } = await environment.call(call("add", args), never);
      answers.push([result, reward, done]);
    }
    assert.deepEqual(answers, [["2", 0, false], ["error: a is below 0", null, false], ["8", 1, true]]);
    assert.equal((await environment.call(call("fail", {}), never)).result, "error: too slow");
    assert.deepEqual(await environment.state(never), { value: { episode_id: null, step_count: 2 } });
    assert.deepEqual(sessions.map(({ said }) => said[0]), [
      { type: "step", data: { type: "list_tools" } },
      { type: "reset", data: { seed: 3, difficulty: 2 } },
    ]);
    await environment.close();
  });
});

Deno.test("an OpenEnv environment without tools has one, whose arguments are its action", async () => {
  const action = {
    title: "Move",
    description: "Moves.",
    type: "object",
    properties: { to: { type: "string" }, metadata: { type: "object" } },
    required: ["to"],
  };
  await withOpenEnv({
    action,
    reset: () => ({ observation: { board: null } }),
    step: (data) => ({ observation: { board: data.to }, reward: 0.5, done: data.to === "end" }),
  }, async ({ factory, sessions }) => {
    const { tools } = await factory.catalog(scenarioOf({}), never);
    const { metadata: _, ...properties } = action.properties;
    assert.deepEqual(tools, [{ name: "act", description: "Moves.", parameters: { ...action, properties } }]);
    const environment = await factory.open(scenarioOf({}), { seed: 3, signal: never });
    assert.equal(environment.observation, null);
    const answer = await environment.call(call("act", { to: "end" }), never);
    assert.deepEqual(answer, { result: '{"board":"end"}', reward: 0.5, done: true });
    assert.deepEqual(sessions.at(-1)!.said.at(-1), { type: "step", data: { to: "end" } });
    await environment.close();
  });
});

Deno.test("a session that OpenEnv refuses is the environment's failure", async () => {
  await withOpenEnv({
    tools: [],
    reset() {
      throw new Error("no such task");
    },
    step: () => ({}),
  }, async ({ factory }) => {
    await assert.rejects(factory.open(scenarioOf({}), { seed: 1, signal: never }), {
      code: "environment_failed",
      message: /POST \/reset was answered with 502: .*no such task$/,
    });
  });
});
