/** What a local server writes beside its answers, or too much of. */

import { deepEqual, equal, match, ok, rejects } from "node:assert/strict";
import { isDead } from "../../tests/process_state.ts";
import { LOOK_TIMEOUT_MS } from "../environment/leftovers.ts";
import { MAX_RESULT_CHARS } from "./call_result.ts";
import { DRAIN_TIMEOUT_MS, MAX_QUOTED_CHARS, MAX_STDERR_CHARS } from "./child_transport.ts";
import { MAX_ANSWER_BYTES } from "./guarded_fetch.ts";
import { callOnce, hosted } from "./mcp_testing.ts";
import { MAX_ID_CHARS } from "./transport.ts";

const SERVER = 'the MCP server "odd"';

for (const [name, how] of Object.entries({ flood: "on one line", flood_lines: "without an answer" })) {
  hosted(`a flood is cut: ${name}`, { isDead }, async ({ host, pid }) => {
    await rejects(callOnce(host, name), {
      code: "tool_failed",
      message:
        `Cannot call "${name}" of ${SERVER}: it was ended because it wrote more than ${MAX_ANSWER_BYTES} ` +
        `bytes ${how}`,
    });
    ok(await isDead(pid));
  });
}

hosted("a huge result is cut with a mark", { isDead }, async ({ host }) => {
  const result = (await callOnce(host, "huge"))!;
  const mark = `\n[${50_000_000 - MAX_RESULT_CHARS} characters left out]`;
  equal(result, "x".repeat(MAX_RESULT_CHARS) + mark);
});

hosted(
  "lines that are no messages are reported once",
  { isDead, mode: "noise" },
  async ({ host, messages }) => {
    equal(await callOnce(host, "say"), "said");
    deepEqual(messages, [
      `${SERVER}: it wrote "starting up" to its standard output, which is no message; ` +
      "further such lines are ignored silently",
    ]);
  },
);

hosted("of a line that is no message the start is quoted", { isDead, mode: "long_noise" }, ({ messages }) => {
  match(messages[0]!, RegExp(`it wrote "n{${MAX_QUOTED_CHARS}}" to its standard output`));
  return Promise.resolve();
});

hosted("answers that were not asked for change nothing", { isDead }, async ({ host, messages }) => {
  equal(await callOnce(host, "wrong_id"), "right");
  equal(await callOnce(host, "twice"), "once");
  equal(await callOnce(host, "say"), "said");
  deepEqual(messages, [`${SERVER}: it answered the request 9999, which is not open`]);
});

hosted("of the id of such an answer the start is quoted", { isDead }, async ({ host, messages }) => {
  equal(await callOnce(host, "big_id"), "right");
  equal(
    messages[0],
    `${SERVER}: it answered the request "${"x".repeat(MAX_ID_CHARS - 1)}, which is not open`,
  );
});

hosted("of a long standard error the end is shown", { isDead }, async ({ host }) => {
  const end = `${"e".repeat(2000)} last`.slice(-MAX_STDERR_CHARS);
  await rejects(callOnce(host, "crash_at_length"), {
    message: `Cannot call "crash_at_length" of ${SERVER}: it exited with status 7: …${end}`,
  });
});

hosted(
  "the output of a process that cannot be found is waited for no longer than DRAIN_TIMEOUT_MS",
  { isDead },
  async ({ host, clock }) => {
    const hidden = Number(await callOnce(host, "leave_hidden"));
    try {
      let failed = false;
      const crashing = rejects(callOnce(host, "crash"), { message: /: it exited with status 7: / })
        .finally(() => failed = true);
      // The server has ended, and what it left is looked for.
      await clock.sleeper(LOOK_TIMEOUT_MS);
      await clock.sleeper(DRAIN_TIMEOUT_MS);
      await clock.advance(DRAIN_TIMEOUT_MS - 1);
      ok(!failed);
      await clock.advance(1);
      await crashing;
    } finally {
      Deno.kill(hidden, "SIGKILL");
    }
  },
);
