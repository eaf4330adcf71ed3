import { deepEqual, equal, match, ok, rejects, throws } from "node:assert/strict";
import type { AgentConfig } from "../../config/schema.ts";
import { mcpServerSchema } from "../../config/sections/mcp.ts";
import { MAX_SCHEMA_CHARS } from "../../core/argument_schema.ts";
import { WakingClock } from "../../core/clock_fake.ts";
import { isDead } from "../../tests/process_state.ts";
import { checkCall } from "../tools/toolset.ts";
import { END_GRACE_MS } from "./child_transport.ts";
import { CALL_TIMEOUT_SECS, mcpHosts } from "./mcp_hosts.ts";
import { MAX_FAILURES, MAX_REASON_CHARS, RESTART_DELAY_MS } from "./mcp_server.ts";
import {
  CALL_TIMEOUT_MS,
  callOnce,
  hosted,
  misbehavingCommand,
  never,
  strict,
  testHost,
} from "./mcp_testing.ts";
import { MAX_DESCRIPTION_CHARS, offeredTools } from "./offered_tools.ts";
import { MAX_LIST_PAGES, MAX_LISTED_TOOLS } from "./sdk.ts";
import { START_TIMEOUT_MS } from "./session.ts";

const SERVER = 'the MCP server "odd"';

hosted(
  "a server lists its tools by name, and answers calls with text",
  { isDead },
  async ({ host, messages }) => {
    const names = (await host.list(never)).map(({ name }) => name);
    deepEqual(names, names.toSorted());
    const [count] = (await host.list(never)).filter(({ name }) => name === "count");
    deepEqual(count, { name: "count", description: "", parameters: { type: "object" } });
    equal(await callOnce(host, "say"), "said");
    equal(await callOnce(host, "refuse"), "error: no such page");
    equal(
      await callOnce(host, "picture"),
      "before\n[image: image/png]\ninside\n[resource: file:///b.txt]",
    );
    equal(await callOnce(host, "structured"), '{"answer":42}');
    deepEqual(messages, []);
  },
);

hosted("attempts share the session of a stateless server", { isDead }, async ({ host, pid }) => {
  deepEqual([await callOnce(host, "count"), await callOnce(host, "count")], ["1", "2"]);
  equal(await callOnce(host, "pid"), pid);
});

Deno.test(
  "each attempt has a session of its own with any other server, which ends with it",
  strict,
  async () => {
    await using tested = testHost({ stateless: false });
    const { host } = tested;
    await host.list(never);
    const attempts = await Promise.all([host.open(never), host.open(never)]);
    const call = async (i: number, name: string) =>
      (await attempts[i]!.call({ id: "c", name, arguments: {} }, never)).result;
    deepEqual([await call(0, "count"), await call(0, "count"), await call(1, "count")], ["1", "2", "1"]);
    const pids = [await call(0, "pid"), await call(1, "pid")];
    await attempts[0]!.close();
    await attempts[0]!.close();
    deepEqual(await Promise.all(pids.map((pid) => isDead(pid!))), [true, false]);
    await host.close();
    ok(await isDead(pids[1]!));
  },
);

Deno.test("a program sees a small environment, its own variables and its folder", strict, async () => {
  await using tested = testHost({ env: { TOKEN: "canary-1234" } });
  await tested.host.list(never);
  const names = (await callOnce(tested.host, "environment"))!.split(" ");
  deepEqual(names.filter((name) => !name.startsWith("DENO_")), ["HOME", "LANG", "LC_ALL", "PATH", "TOKEN"]);
  equal(await callOnce(tested.host, "folder"), "/");
});

Deno.test(
  "allowed tools are offered unless they are denied, under names that a model can call",
  strict,
  async () => {
    const allowed_tools = ["a.*", "long*", "co*nt", "crash", "*u*ge*"];
    await using tested = testHost({ mode: "odd_names", allowed_tools, denied_tools: ["cra*"] });
    const { host } = tested, tools = await host.list(never);
    const names = tools.map(({ name }) => name);
    deepEqual(names.filter((name) => name.length < 64), ["a_b_c_d", "count", "huge"]);
    match(names.at(-1)!, /^(long){13}lon_[0-9a-f]{8}$/);
    // The tool `say` answers for names that it does not have.
    equal(await callOnce(host, "a_b_c_d", { n: 3 }), "said");
    // A pattern that could take for ever is left to the server.
    const check = (args: object) => checkCall(tools, { name: "a_b_c_d", arguments: args });
    equal(check({ n: 3, s: `${"a".repeat(40)}b`, more: 1 }), null);
    equal(check({ n: 2 }), "error: bad arguments at /n");
    equal(await callOnce(host, names.at(-1)!), "said");
  },
);

const unusable = (reason: string) =>
  `its tool "bomb" cannot be offered: its schema cannot be used: ${reason}; deny it with denied_tools`;

for (
  const [mode, reason] of Object.entries({
    exit: "it exited with status 3: no licence",
    refuse_list: "no tools today",
    bomb_loop: unusable("a $ref in it refers to itself, without a step into the value"),
    bomb_doubling: unusable("more than 64 subschemas in it apply to one value, one inside the other"),
    bomb_big: unusable(`it has more than ${MAX_SCHEMA_CHARS} characters`),
    bomb_deep: "its answer is nested more than 64 levels deep",
    no_object:
      'its tool "bomb" cannot be offered: its schema is not that of an object; deny it with denied_tools',
    same_name: 'it has two tools with the name "say"; deny them with denied_tools',
    [`list_of_${MAX_LISTED_TOOLS + 1}`]: `it lists more than ${MAX_LISTED_TOOLS} tools`,
    refuse_at_length: `${"x".repeat(MAX_REASON_CHARS)}…`,
    no_form: "its list of tools has not the form of the protocol: tools.1.name: must be a string, not 7",
    endless_list: `its list of tools has more than ${MAX_LIST_PAGES} pages`,
  })
) {
  Deno.test(`a list is refused with its reason, or done without: ${mode}`, strict, async () => {
    await using needed = testHost({ mode });
    await rejects(needed.host.list(never), {
      code: "environment_failed",
      message: `Cannot list the tools of ${SERVER}: ${reason}`,
    });
    await using optional = testHost({ mode, required: false });
    deepEqual(await optional.host.list(never), []);
    await (await optional.host.open(never)).close();
    deepEqual(optional.messages, [`${SERVER}: the run goes on without its tools: ${reason}`]);
  });
}

for (const mode of ["ends_null", "ends_empty"]) {
  Deno.test(`a list may leave out by null, and end by an empty cursor: ${mode}`, strict, async () => {
    await using tested = testHost({ mode });
    const tools = await tested.host.list(never), parameters = { type: "object" };
    deepEqual(tools, ["first", "second"].map((name) => ({ name, description: "", parameters })));
  });
}

Deno.test("a list may have MAX_LISTED_TOOLS tools, and a tool MAX_DESCRIPTION_CHARS of description", async () => {
  await using tested = testHost({ mode: `list_of_${MAX_LISTED_TOOLS}` });
  equal((await tested.host.list(never)).length, MAX_LISTED_TOOLS);
  const described = (length: number) =>
    offeredTools([{ name: "t", description: "d".repeat(length), inputSchema: { type: "object" } }], {
      denied_tools: [],
    }, () => {});
  equal(described(MAX_DESCRIPTION_CHARS).length, 1);
  throws(() => described(MAX_DESCRIPTION_CHARS + 1), /its description has 16385 characters, more than 16384/);
});

Deno.test("a denied name that no tool has is refused, and an allowed one is told", strict, async () => {
  await using wrong = testHost({ denied_tools: ["cuont", "*zz*", "say"] });
  const reason = 'denied_tools has "cuont", and it has no such tool; did you mean "count"?';
  await rejects(wrong.host.list(never), {
    code: "environment_failed",
    message: `Cannot list the tools of ${SERVER}: ${reason}`,
  });
  await using told = testHost({ allowed_tools: ["say", "pdi", "zz*", "elsewhere"] });
  deepEqual((await told.host.list(never)).map(({ name }) => name), ["say"]);
  await told.host.list(never);
  deepEqual(told.messages, [
    `${SERVER}: allowed_tools has "pdi" and "elsewhere", and it has no such tools; did you mean "pid"?`,
  ]);
});

Deno.test("a denied tool's schema is not looked at", strict, async () => {
  await using tested = testHost({ mode: "bomb_loop", denied_tools: ["bomb"] });
  ok((await tested.host.list(never)).length > 5);
});

Deno.test("a program that is not there is an error with its name", strict, async () => {
  await using tested = testHost({ command: ["no-such-program"] });
  await rejects(tested.host.list(never), {
    message: `Cannot list the tools of ${SERVER}: Cannot run no-such-program: no such program`,
  });
});

Deno.test("a home that cannot be made is the infrastructure's failure", strict, async () => {
  const file = await Deno.makeTempFile();
  try {
    await using tested = testHost({ workspaces: file });
    await rejects(tested.host.list(never), {
      code: "infrastructure_failed",
      message: new RegExp(`^Cannot list the tools of ${SERVER}: Cannot make a home: `),
    });
  } finally {
    await Deno.remove(file);
  }
});

Deno.test("a server that does not shake hands is given up after the time limit", strict, async () => {
  await using tested = testHost({ mode: "hang_at_start" });
  const listing = rejects(tested.host.list(never), {
    message: `Cannot list the tools of ${SERVER}: it did not start within ${START_TIMEOUT_MS / 1000} s`,
  });
  await tested.clock.wake(START_TIMEOUT_MS);
  await listing;
});

hosted(
  "a crash in a call fails the call, and the server is started again",
  { isDead },
  async ({ host, pid, clock }) => {
    await rejects(callOnce(host, "crash"), {
      code: "tool_failed",
      message: `Cannot call "crash" of ${SERVER}: it exited with status 7: the disk is on fire`,
    });
    ok(await isDead(pid));
    const [later] = await Promise.all([callOnce(host, "pid"), clock.wake(RESTART_DELAY_MS)]);
    ok(later !== pid && !await isDead(later!));
  },
);

hosted(
  "a crash fails each call that waits, once, and is one failure of the server",
  { isDead },
  async ({ host, pid, clock }) => {
    const attempts = await Promise.all(Array.from({ length: 16 }, () => host.open(never)));
    const ended = await Promise.allSettled(attempts.map((attempt, i) => {
      const name = i < attempts.length - 1 ? "hang" : "crash";
      return attempt.call({ id: "c", name, arguments: {} }, never);
    }));
    deepEqual(
      ended.map((call) => call.status === "rejected" ? [call.reason.code, call.reason.details] : call.value),
      attempts.map(() => ["tool_failed", { transient: true }]),
    );
    // One failure, and not 16: the server starts again, after the first wait. A call that is sent again would hang.
    const [pids] = await Promise.all([
      Promise.all(attempts.map(() => callOnce(host, "pid"))),
      clock.wake(RESTART_DELAY_MS),
    ]);
    deepEqual(new Set(pids).size, 1);
    ok(pids[0] !== pid && await isDead(pid) && !await isDead(pids[0]!));
  },
);

Deno.test("a server that fails often in a row is not started again", strict, async () => {
  for (const required of [true, false]) {
    await using tested = testHost({ required });
    const { host, clock, messages } = tested;
    await host.list(never);
    for (let i = 0; i < MAX_FAILURES; i++) {
      const crashing = rejects(callOnce(host, "crash"), { code: "tool_failed" });
      // The wait doubles with each failure.
      if (i > 0) await clock.wake(RESTART_DELAY_MS * 2 ** (i - 1));
      await crashing;
    }
    const reason =
      `it failed ${MAX_FAILURES} times in a row, at last: it exited with status 7: the disk is on fire`;
    if (required) {
      const message = `Cannot start ${SERVER}: ${reason}`;
      await rejects(host.open(never), { code: "environment_failed", message });
      continue;
    }
    equal(await callOnce(host, "say"), "error: the tool is not available");
    equal(await callOnce(host, "say"), "error: the tool is not available");
    deepEqual(messages, [`${SERVER}: the run goes on without its tools: ${reason}`]);
  }
});

Deno.test("a crash costs only the attempt whose session it was", strict, async () => {
  await using tested = testHost({ stateless: false });
  const { host } = tested;
  await host.list(never);
  const [first, second] = await Promise.all([host.open(never), host.open(never)]);
  const call = (name: string) => ({ id: "c", name, arguments: {} });
  await rejects(first!.call(call("crash"), never), { code: "tool_failed" });
  await rejects(first!.call(call("say"), never), { code: "tool_failed" });
  equal((await second!.call(call("say"), never)).result, "said");
});

hosted(
  "a server that hangs is started again once nobody waits for it",
  { isDead },
  async ({ host, pid, clock }) => {
    const stop = new AbortController(), attempt = await host.open(never);
    const hanging = attempt.call({ id: "c", name: "hang", arguments: {} }, stop.signal);
    stop.abort(new Error("too late"));
    await rejects(hanging, { code: "tool_failed", message: `Cannot call "hang" of ${SERVER}: too late` });
    const [later] = await Promise.all([callOnce(host, "pid"), clock.wake(RESTART_DELAY_MS)]);
    ok(later !== pid && await isDead(pid));
  },
);

hosted(
  "a call ends at its time limit, and the server is started again",
  { isDead },
  async ({ host, pid, clock }) => {
    const hanging = rejects(callOnce(host, "hang"), {
      code: "tool_failed",
      message: `Cannot call "hang" of ${SERVER}: it gave no answer within ${CALL_TIMEOUT_MS / 1000} s`,
      details: { transient: true },
    });
    await clock.wake(CALL_TIMEOUT_MS);
    await hanging;
    const [later] = await Promise.all([callOnce(host, "pid"), clock.wake(RESTART_DELAY_MS)]);
    ok(later !== pid && await isDead(pid));
  },
);

Deno.test(
  "a call may take exec_timeout_secs, and CALL_TIMEOUT_SECS without an environment",
  strict,
  async () => {
    for (
      const [environment, secs] of [
        [undefined, CALL_TIMEOUT_SECS],
        [{ limits: { exec_timeout_secs: 7 } }, 7],
      ] as const
    ) {
      const clock = new WakingClock(), command = misbehavingCommand();
      const agent = {
        mcp_servers: [mcpServerSchema.parse({ name: "odd", command, stateless: true })],
        environment,
      };
      const [host] = mcpHosts(agent as unknown as AgentConfig, { clock, report: () => {} });
      await host!.list(never);
      let is_over = false;
      const hanging = rejects(callOnce(host!, "hang"), { message: RegExp(`no answer within ${secs} s$`) })
        .finally(() => is_over = true);
      await clock.sleeper(secs * 1000);
      await clock.advance(secs * 1000 - 1);
      equal(is_over, false);
      await clock.advance(1);
      await hanging;
      await host!.close();
    }
  },
);

hosted(
  "a change of the tools is reported, and the run keeps its own",
  { isDead },
  async ({ host, messages }) => {
    equal(await callOnce(host, "change_list"), "changed");
    equal(await callOnce(host, "say"), "said");
    deepEqual(messages, [`${SERVER}: it changed its tools; the run keeps those that it began with`]);
  },
);

hosted("an answer that is none of the protocol fails its call", { isDead }, async ({ host }) => {
  await rejects(callOnce(host, "not_mcp"), {
    code: "tool_failed",
    message: /^Cannot call "not_mcp" of the MCP/,
  });
});

hosted("what is no answer of the protocol fails its call at once", { isDead }, async ({ host }) => {
  await rejects(callOnce(host, "not_json_rpc"), {
    code: "tool_failed",
    message: /: its answer has neither a result nor an error of the protocol$/,
  });
});

hosted("an answer that is nested too deep fails its call", { isDead }, async ({ host }) => {
  await rejects(callOnce(host, "deep"), { message: /: its answer is nested more than 64 levels deep$/ });
});

Deno.test("what a server started is gone with it, in its own session too", {
  ...strict,
  ignore: Deno.build.os !== "linux",
}, async () => {
  await using tested = testHost();
  await tested.host.list(never);
  const pids = (await callOnce(tested.host, "leave_children"))!.split(" ");
  equal(pids.length, 2);
  // The server waits for its children when its input ends.
  await Promise.all([tested.host.close(), tested.clock.wake(END_GRACE_MS)]);
  deepEqual(await Promise.all(pids.map(isDead)), [true, true]);
});

Deno.test("a server that ignores the end of its input is killed after a grace", strict, async () => {
  await using tested = testHost({ mode: "ignore_eof" });
  const { host, clock } = tested;
  await host.list(never);
  const pid = (await callOnce(host, "pid"))!;
  let closed = false;
  const closing = host.close().then(() => closed = true);
  await clock.sleeper(END_GRACE_MS);
  await clock.advance(END_GRACE_MS - 1);
  ok(!closed && !await isDead(pid));
  await clock.advance(1);
  await closing;
  ok(await isDead(pid));
});
