/** Secrets of servers are in nothing that a person or a model sees. */

import { equal, ok, rejects } from "node:assert/strict";
import { MIN_PART_CHARS } from "../../core/chat_api/redact.ts";
import { RESTART_DELAY_MS } from "./mcp_server.ts";
import { callOnce, never, testHost } from "./mcp_testing.ts";

const strict = { sanitizeOps: true, sanitizeResources: true };

const SERVER = 'the MCP server "odd"';

Deno.test("a secret is in no message, error or result", strict, async () => {
  Deno.env.set("SVC_TEST_TOKEN", "canary-1234");
  try {
    await using tested = testHost({ env: { TOKEN: "${SVC_TEST_TOKEN}" } });
    await tested.host.list(never);
    equal(await callOnce(tested.host, "token"), "the token is [key]");
    await using failing = testHost({
      command: ["sh", "-c", 'echo "bad token $TOKEN" >&2; exit 1'],
      env: { TOKEN: "${SVC_TEST_TOKEN}" },
    });
    await rejects(failing.host.list(never), {
      message: `Cannot list the tools of ${SERVER}: it exited with status 1: bad token [key]`,
    });
  } finally {
    Deno.env.delete("SVC_TEST_TOKEN");
  }
});

const CANARY = "sk-canary-0123456789abcdefghijklmnopqrstuvwxyz";

/** Fails for a text with a part of the canary that is long enough to be worth something. */
function hasNoCanary(text: string): void {
  for (let i = 0; i + MIN_PART_CHARS <= CANARY.length; i++) {
    ok(!text.includes(CANARY.slice(i, i + MIN_PART_CHARS)), text.slice(-300));
  }
}

/** All of an error, with its causes and details. */
const wholeError = (error: unknown) =>
  Deno.inspect(error, { depth: 20, strAbbreviateSize: Infinity, iterableLimit: Infinity });

Deno.test("no part of a secret is shown, wherever a text is cut", strict, async () => {
  Deno.env.set("SVC_TEST_TOKEN", CANARY);
  const env = { TOKEN: "${SVC_TEST_TOKEN}" };
  try {
    const shown: Record<string, string> = {};
    await using tested = testHost({ env, mode: "leak_list" });
    const { host, clock, messages } = tested, tools = await host.list(never);
    shown.list = JSON.stringify(tools.find(({ name }) => name === "leak"));
    for (const name of ["token", "leak_result", "leak_error", "leak_structured", "leak_name"]) {
      shown[name] = (await callOnce(host, name))!;
    }
    equal(shown.leak_name, `[resource: ${"x".repeat(185)}[key]${"y".repeat(10)}]`);
    for (const name of ["leak_id", "leak_noise"]) equal(await callOnce(host, name), "right");
    for (const message of messages) shown[`message ${message}`] = message;
    equal(messages.length, 2);
    shown.crash = wholeError(await callOnce(host, "leak_crash").catch((error) => error));
    shown.refusal = (await Promise.all([callOnce(host, "leak_refusal"), clock.wake(RESTART_DELAY_MS)]))[0]!;
    await using refusing = testHost({ env, mode: "leak_refuse_list" });
    shown.refuse_list = wholeError(await refusing.host.list(never).catch((error) => error));
    await using optional = testHost({ env, mode: "leak_refuse_list", required: false });
    await optional.host.list(never);
    shown.gone = optional.messages.join();
    for (const [path, text] of Object.entries(shown)) {
      ok(
        text.includes("[key]") || /\[ke?y?…?$/.test(text),
        `${path} tells of the secret: ${text.slice(-300)}`,
      );
      hasNoCanary(text);
    }
  } finally {
    Deno.env.delete("SVC_TEST_TOKEN");
  }
});
