import { deepEqual, equal, rejects } from "node:assert/strict";
import { parse, stringify } from "smol-toml";
import { ServiceError } from "../../core/errors.ts";
import type { CommandResult, Sandbox, SandboxCommand } from "./sandbox.ts";
import type { ToolsetAnswer } from "./tool_host.ts";
import { checkCall } from "./toolset.ts";
import { configuredToolsets } from "./toolsets.ts";

const { signal } = new AbortController();

const tool = (parameters: Record<string, unknown> = { type: "object" }) => ({
  ...{ name: "find", description: "Finds.", parameters: parameters as never, command: ["find", "-x"] },
});

const toolset = (parameters?: Record<string, unknown>) =>
  configuredToolsets({ own: { version: 1, tools: [tool(parameters)] } }).own!;

/** The result of a call in a sandbox whose program ends like this. */
async function answerTo(end: Partial<CommandResult> | Error): Promise<ToolsetAnswer> {
  const run = ({ argv, stdin }: SandboxCommand) => {
    equal(JSON.stringify([argv, stdin]), '[["find","-x"],"{\\"q\\":1}\\n"]');
    if (end instanceof Error) return Promise.reject(end);
    return Promise.resolve<CommandResult>({
      ...{ code: 0, ended: "exited", stdout: "", stderr: "", capped: false },
      ...end,
    });
  };
  const sandbox = { run } as unknown as Sandbox;
  const call = { id: "c", name: "find", arguments: { q: 1 } };
  return await toolset().run({ call, sandbox, signal });
}

const resultOf = async (end: Partial<CommandResult> | Error) => (await answerTo(end)).result;

Deno.test("what a program writes and its status give the result, or say that the tool failed", async () => {
  equal(await resultOf({ stdout: "two\nlines\n", stderr: "noise" }), "two\nlines");
  equal(await resultOf({}), "");
  equal(await resultOf({ code: 1, stdout: "out", stderr: "why\n" }), "error: why");
  equal(await resultOf({ code: 1, stdout: "out" }), "error: out");
  equal(await resultOf({ code: 9 }), "error: exit status 9");
  equal(await resultOf({ code: null, ended: "killed" }), "error: the tool was killed");
  for (const code of [125, 126, 127, 128]) {
    const { result, not_started } = await answerTo({ code, stderr: "why" });
    equal(result, "error: why");
    deepEqual(not_started, code === 126 || code === 127 ? ["find", "-x"] : undefined);
  }
  const missing = new ServiceError("environment_failed", "Cannot run find: no such program", {
    no_program: true,
  });
  const { result, not_started } = await answerTo(missing);
  deepEqual([result, not_started], ["error: Cannot run find: no such program", ["find", "-x"]]);
  const broken = new ServiceError("environment_failed", "Cannot run it: no place");
  await rejects(resultOf(broken), {
    code: "tool_failed",
    message: "Cannot run the tool find: Cannot run it: no place",
  });
});

Deno.test("a schema has the same text after its configuration was written again", () => {
  const parameters = {
    required: ["z", "a"],
    properties: {
      z: { items: { type: "string" }, type: "array", default: { b: 1, a: 2 } },
      a: { $ref: "#/$defs/x" },
    },
    $defs: { x: { anyOf: [{ minimum: 1, type: "integer" }, { type: "null" }] } },
    type: "object",
  };
  const text = (parameters: Record<string, unknown>) =>
    JSON.stringify(toolset(parameters).tools[0]!.parameters);
  const again = parse(stringify({ parameters })) as { parameters: Record<string, unknown> };
  equal(text(again.parameters), text(parameters));
  equal(text(parameters).slice(0, 50), '{"type":"object","properties":{"z":{"type":"array"');
  const { tools } = toolset(parameters);
  equal(checkCall(tools, { name: "find", arguments: { z: [], a: null } }), null);
  equal(checkCall(tools, { name: "find", arguments: { z: [], a: 0 } }), "error: bad arguments at /a");
});
