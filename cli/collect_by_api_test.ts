import assert from "node:assert/strict";
import { MAX_FAILURES_IN_A_ROW } from "../agent/rollout/hosted_attempts.ts";
import {
  type Behaviour,
  chatAnswer,
  type ReceivedRequest,
  withChatServer,
} from "../core/chat_api/chat_server_fake.ts";
import { systemClock } from "../core/clock.ts";
import { withFolder } from "../tests/folder.ts";
import { collectByApi } from "./collect_by_api.ts";
import { testContext, testTerminal } from "./context_fake.ts";
import { runCli } from "./program.ts";

const GRPO = new URL("../examples/tiny_agent_grpo.toml", import.meta.url).pathname;
const MODEL = new URL("../fixtures/models/tiny-agent-f16.gguf", import.meta.url).pathname;

interface Given {
  root: string;
  received: ReceivedRequest[];
  /** Runs `svc collect --api` and reads what it wrote. */
  collect(...args: string[]): Promise<{ code: number; out: string; err: string; rows: Row[] }>;
}

// deno-lint-ignore no-explicit-any -- rows as they are on disk
type Row = any;

const task = (id: string, env: object) =>
  JSON.stringify({ id, user: `Write ${id} to out.txt.`, metadata: { env } });
const verify = { command: ["true"] };
const verified = (id: string) =>
  task(id, { toolset: "files", verify: { command: ["sh", "-c", `test "$(cat out.txt)" = ${id}`] } });

/** Runs a test with a hosted model and a configuration of these scenarios. */
function withPolicy(behaviour: Behaviour, scenarios: string[], body: (given: Given) => Promise<void>) {
  return withFolder((root) =>
    withChatServer([behaviour], async ({ base_url, received }) => {
      const text = (await Deno.readTextFile(GRPO)).replace(/^path = .*$/m, `path = ${JSON.stringify(MODEL)}`)
        .replace(/^scenarios = .*$/m, 'scenarios = "s.jsonl"').replace(/\[evaluation\][^[]*/, "");
      await Deno.writeTextFile(
        `${root}/run.toml`,
        `${text}\n[agent.collect_api]\nmodel = "big"\nbase_url = "${base_url}"\n`,
      );
      await Deno.writeTextFile(`${root}/s.jsonl`, scenarios.join("\n"));
      const collect: Given["collect"] = async (...args) => {
        const terminal = testTerminal(), out = `${root}/t.jsonl`;
        const collect = (options: Parameters<typeof collectByApi>[0]) => collectByApi(options, systemClock);
        const code = await runCli(
          ["collect", `${root}/run.toml`, "--api", "--out", out, "--force", ...args],
          testContext({ terminal, collect }),
        );
        const text = await Deno.readTextFile(out).catch(() => "");
        const rows = text.trimEnd().split("\n").filter(Boolean).map((line) => JSON.parse(line));
        return { code, out: terminal.out, err: terminal.err, rows };
      };
      await body({ root, received, collect });
    })
  );
}

const call = (name: string, given: unknown, id = "call_x") => ({
  id,
  type: "function",
  function: { name, arguments: typeof given === "string" ? given : JSON.stringify(given) },
});

const calling = (...tool_calls: unknown[]) =>
  Response.json({
    choices: [{ message: { role: "assistant", content: null, tool_calls }, finish_reason: "tool_calls" }],
  });

/** Writes what the task names, then submits. */
const solver: Behaviour = ({ body: { messages } }) => {
  const task = /Write (\S+) to/.exec(messages.find(({ role }: Row) => role === "user").content)![1]!;
  return messages.at(-1).role === "user"
    ? calling(call("write_file", { path: "out.txt", content: task }))
    : calling(call("submit", {}));
};

Deno.test("a hosted model's attempts are verified and written as rows with their calls and results", () =>
  withPolicy(solver, [verified("a"), verified("b")], async ({ received, collect }) => {
    const { code, err, out, rows } = await collect("--k", "2");
    assert.equal(code, 0);
    assert.match(err, /^svc: tools and commands of environments of type "local" run .*\n$/);
    assert.match(out, /^pass rate 100\.0 %.*\n2 traces of 2 of 2 scenarios: .*\nnot kept: 2 identical\n$/);
    assert.deepEqual(rows.map(({ messages }) => messages.map(({ role }: Row) => role)), [
      ["user", "assistant", "tool", "assistant"],
      ["user", "assistant", "tool", "assistant"],
    ]);
    const [, wrote, result] = rows[1].messages;
    assert.equal(wrote.tool_calls[0].function.arguments, '{"path":"out.txt","content":"b"}');
    assert.deepEqual(result, {
      role: "tool",
      content: "ok",
      tool_call_id: wrote.tool_calls[0].id,
      name: "write_file",
    });
    assert.equal(received.length, 8);
    const { model, tools, messages } = received.at(-1)!.body;
    assert.deepEqual([model, tools[0].type, tools.length], ["big", "function", 4]);
    assert.equal(messages[1].tool_calls[0].id, messages[2].tool_call_id);
  }));

Deno.test("a verification that an attempt may change is warned of before the first attempt", () =>
  withPolicy(
    solver,
    [
      task("a", { toolset: "files", files: { Makefile: "" }, verify: { command: ["true", "check"] } }),
    ],
    async ({ collect }) => {
      const { code, err } = await collect("--k", "1");
      assert.equal(code, 0);
      assert.match(err, /an attempt may be able to change what verifies scenario "a" \(.*s\.jsonl:1\): /);
    },
  ));

Deno.test("what a hosted model does wrong is not kept, and has its reason", () => {
  const wrongs: Record<string, Behaviour> = {
    "not_verified": (request) => {
      request.body.messages = request.body.messages.map((message: Row) => ({
        ...message,
        content: message.content?.replace(/Write \S+/, "Write wrong"),
      }));
      return solver(request, new AbortController().signal);
    },
    "malformed_call": () => calling(call("write_file", "{not json")),
    "max_turn_tokens": () => chatAnswer("I would", { finish_reason: "length" }),
    "max_turns": () => calling(call("list_dir", { path: "." })),
  };
  return withPolicy(
    (request, signal) => {
      const [, reason] = /Write (\S+) to/.exec(request.body.messages[0].content)!;
      return (wrongs[reason!] ?? solver)(request, signal);
    },
    [...Object.keys(wrongs), "good"].map(verified),
    async ({ collect }) => {
      const { code, out, rows } = await collect("--k", "1");
      assert.deepEqual([code, rows.length], [0, 1]);
      assert.match(out, /not kept: 1 malformed_call, 1 max_turn_tokens, 1 max_turns, 1 not_verified\n/);
    },
  );
});

Deno.test("each turn and each attempt of a hosted model has its limit of tokens", () => {
  const listing = (usage?: object, finish_reason = "tool_calls") =>
    Response.json({
      choices: [{
        message: {
          role: "assistant",
          content: null,
          tool_calls: [call("write_file", { path: "out.txt", content: "x" })],
        },
        finish_reason,
      }],
      ...usage && { usage },
    });
  const sent: Record<string, number[]> = {};
  const scripts: Record<string, Behaviour> = {
    // Of 150 tokens 100 are left after the first turn, 20 after the second.
    grows: ({ body: { messages } }) =>
      listing({ prompt_tokens: 40 * messages.length, completion_tokens: 10 }),
    // It does not heed the limit that it was sent.
    heedless: () => listing({ prompt_tokens: 10, completion_tokens: 101 }),
    // Its second prompt is too long by itself.
    full: ({ body: { messages } }) =>
      listing({ prompt_tokens: messages.length === 1 ? 10 : 150, completion_tokens: 1 }),
    cut: () => listing({ prompt_tokens: 10, completion_tokens: 100 }, "length"),
    uncounted: () => listing(),
  };
  return withPolicy(
    (request, signal) => {
      const [, name] = /Write (\S+) to/.exec(request.body.messages[0].content)!;
      (sent[name!] ??= []).push(request.body.max_tokens);
      return scripts[name!]!(request, signal);
    },
    Object.keys(scripts).map(verified),
    async ({ collect }) => {
      const limits = [
        "agent.max_new_tokens_per_turn=100",
        "agent.max_trajectory_tokens=150",
        "agent.max_turns=3",
      ];
      const { code, err } = await collect("--k", "1", ...limits);
      assert.equal(code, 1);
      assert.match(err, /\(2 max_trajectory_tokens, 2 max_turn_tokens, 1 max_turns\)/);
      assert.deepEqual(sent, {
        grows: [100, 100, 20],
        heedless: [100],
        full: [100, 100],
        cut: [100],
        uncounted: [100, 100, 100],
      });
    },
  );
});

Deno.test("an endpoint that refuses ends the collection after a few requests", () => {
  const refusing = () => Response.json({ error: { message: "no credit" } }, { status: 402 });
  const tasks = Array.from({ length: 40 }, (_, n) => verified(`t${n}`));
  return withPolicy(refusing, tasks, async ({ received, collect }) => {
    const { code, err, rows } = await collect("--k", "1");
    assert.deepEqual([code, rows], [1, []]);
    assert.match(err, /Cannot ask the model of \[agent\.collect_api\] at .*no credit/);
    assert.ok(
      received.length >= MAX_FAILURES_IN_A_ROW && received.length < 20,
      `${received.length} requests`,
    );
  });
});

Deno.test("a single failed request loses its attempt alone", () => {
  let requests = 0;
  const flaky: Behaviour = (...given) =>
    ++requests === 1 ? new Response("{}", { status: 402 }) : solver(...given);
  return withPolicy(flaky, [verified("a")], async ({ collect }) => {
    const { code, out } = await collect("--k", "3");
    assert.equal(code, 0);
    assert.match(
      out,
      /not kept: 1 identical, 1 infrastructure_failed; first failure, of the infrastructure: Cannot ask/,
    );
  });
});

Deno.test("scenarios that the environment cannot grade, and a configuration without the section, are refused", () =>
  withPolicy(
    solver,
    [verified("a"), task("b", { toolset: "files" })],
    async ({ root, received, collect }) => {
      const { code, err } = await collect();
      assert.equal(code, 2);
      assert.match(
        err,
        /the environment alone grades a hosted model.*s\.jsonl:2, scenario "b"; give it metadata\.env/,
      );
      assert.equal(received.length, 0);
      await Deno.writeTextFile(
        `${root}/s.jsonl`,
        [verified("a"), task("b", { toolset: "python", verify })].join("\n"),
      );
      const unoffered = await collect("--k", "1");
      assert.equal(unoffered.code, 2);
      assert.match(unoffered.err, /s\.jsonl:2, scenario "b": toolset "python" is not offered/);
      const files = await Array.fromAsync(Deno.readDir(root), ({ name }) => name);
      assert.deepEqual([received.length, files.sort()], [0, ["run.toml", "s.jsonl"]]);
      const both = await collect("--model", MODEL);
      assert.match(both.err, /--api and --model name two models/);
      const path = `${root}/run.toml`;
      await Deno.writeTextFile(
        path,
        (await Deno.readTextFile(path)).replace(/\[agent\.collect_api\][^[]*/, ""),
      );
      assert.match((await collect()).err, /has no \[agent\.collect_api\]/);
    },
  ));
