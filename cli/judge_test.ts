import assert from "node:assert/strict";
import { join } from "node:path";
import { type Behaviour, chatAnswer, withChatServer } from "../core/chat_api/chat_server_fake.ts";
import { withFolder } from "../tests/folder.ts";
import { runSvc } from "./context_fake.ts";

const fixture = (id: string, labels: number[]) => ({
  id,
  rubric: "count the letters",
  trajectories: labels.map((label, i) => ({
    messages: [{ role: "user", content: `count ${id}` }, { role: "assistant", content: "x".repeat(i + 1) }],
    label,
  })),
});

/** Scores each attempt by a rule of its length and its position. */
const scoring = (rule: (length: number, position: number) => number): Behaviour => ({ body }) => {
  const { trajectories } = JSON.parse(body.messages[1].content);
  // deno-lint-ignore no-explicit-any -- the document of a request
  const scores = trajectories.map(({ trajectory_id, messages }: any, position: number) => ({
    ...{ trajectory_id, explanation: "", score: rule(messages[0].content.length, position) },
  }));
  return chatAnswer(JSON.stringify({ scores }));
};

interface Evaluated {
  fixtures: object[];
  behaviours: Behaviour[];
  args?: string[];
}

/** Runs the command. */
async function evaluated({ fixtures, behaviours, args = ["--json"] }: Evaluated) {
  let result = { code: -1, out: "", err: "", requests: 0 };
  await withFolder((root) =>
    withChatServer(behaviours, async ({ base_url, received }) => {
      const config = join(root, "run.toml"), file = join(root, "fixtures.jsonl");
      await Deno.writeTextFile(
        config,
        `[run]
algorithm = "agent_grpo"
[model]
path = "none.gguf"
[agent]
scenarios = "none.jsonl"
updates = 1
[agent.judge]
base_url = "${base_url}"
model = "m"
max_retries = 0
`,
      );
      await Deno.writeTextFile(file, fixtures.map((line) => `${JSON.stringify(line)}\n`).join(""));
      const run = await runSvc("judge", "eval", config, "--fixtures", file, ...args);
      result = { ...run, requests: received.length };
    })
  );
  return result;
}

Deno.test("a judge that scores like the labels is perfect, in both orders", async () => {
  const fixtures = [fixture("a", [1, 2, 3]), fixture("b", [0.1, 0.2, 0.3])];
  const { code, out, requests } = await evaluated({
    fixtures,
    behaviours: [scoring((length) => length / 10)],
  });
  assert.deepEqual([code, requests], [0, 4]);
  const { labels, fixtures: judged, failed, tokens, statistics } = JSON.parse(out);
  assert.deepEqual([labels, failed, tokens], ["scores", [], 4 * 30]);
  assert.deepEqual(judged[0], { id: "a", labels: [1, 2, 3], scores: [[0.1, 0.2, 0.3], [0.1, 0.2, 0.3]] });
  const one = { value: 1, groups: 2, interval: [1, 1] };
  assert.deepEqual(statistics, {
    ...{ kendall_tau: one, spearman_rho: one, pair_accuracy: one, self_agreement: one },
    position_bias: { value: 0, groups: 2, interval: [0, 0] },
  });
});

Deno.test("a judge that prefers what it sees first is found out", async () => {
  const fixtures = [fixture("a", [3, 2, 1]), fixture("b", [1, 2, 3])];
  const { out } = await evaluated({ fixtures, behaviours: [scoring((_, position) => 1 - position / 10)] });
  const { labels, statistics: { kendall_tau, pair_accuracy, self_agreement, position_bias } } = JSON.parse(
    out,
  );
  // Its two orders are each other's reverse: what it gains in one it loses in the other.
  assert.equal(labels, "ranks");
  assert.deepEqual([kendall_tau.value, pair_accuracy.value], [0, 0.5]);
  assert.deepEqual([self_agreement.value, position_bias.value], [0, 1]);
});

Deno.test("ranks and scores are told apart, and an option decides", async () => {
  const fixtures = [fixture("a", [1, 2, 3])], behaviours = [scoring((length) => length / 10)];
  const tau = async (...args: string[]) => {
    const { labels, statistics } = JSON.parse(
      (await evaluated({ fixtures, behaviours, args: ["--json", ...args] })).out,
    );
    return [labels, statistics.kendall_tau.value, statistics.kendall_tau.interval];
  };
  assert.deepEqual(await tau(), ["ranks", -1, null]);
  assert.deepEqual(await tau("--labels", "scores"), ["scores", 1, null]);
});

Deno.test("the table says what each number means; a group without a usable answer is named", async () => {
  const fixtures = [fixture("a", [0, 1]), fixture("b\x1b", [0, 1]), fixture("c", [1, 0])];
  const broken: Behaviour = () => new Response("no", { status: 400 });
  const good = scoring((length) => length / 10);
  const { code, out } = await evaluated({
    fixtures,
    behaviours: [good, good, broken, broken, good],
    args: [],
  });
  assert.equal(code, 0);
  const lines = out.trim().split("\n");
  assert.equal(
    lines[0],
    "2 groups, each judged in two orders; the labels are scores, of which the largest is the best",
  );
  assert.match(lines[2]!, /^Kendall τ-b +0\.000 {2}-1\.000 to 1\.000 +2 +order of scores and labels/);
  assert.match(lines[4]!, /^pair accuracy +0\.500 /);
  assert.equal(lines[7], "120 tokens");
  assert.match(
    lines[8]!,
    /^failed: "b\\u001b": Cannot ask the judge at http:\/\/127\.0\.0\.1:\d+: it answers with status 400$/,
  );
});

Deno.test("a judge that never answers is a failure", async () => {
  const broken: Behaviour = () => new Response("no", { status: 400 });
  const { code, out } = await evaluated({ fixtures: [fixture("a", [0, 1])], behaviours: [broken] });
  assert.equal(code, 1);
  assert.equal(JSON.parse(out).statistics.kendall_tau.value, null);
});

Deno.test("fixtures of another form are refused with their lines", async () => {
  const cases: [object[], RegExp][] = [
    [[fixture("a", [1])], /fixtures\.jsonl:1: trajectories: must be a list of at least 2 entries/],
    [[fixture("a", [1, 2]), fixture("a", [1, 2])], /fixtures\.jsonl:2: the id "a" is that of line 1/],
    [[{ ...fixture("a", [1, 2]), extra: 1 }], /fixtures\.jsonl:1: .*extra/],
    [[], /the file is empty/],
  ];
  for (const [fixtures, message] of cases) {
    const { code, err, requests } = await evaluated({ fixtures, behaviours: [() => chatAnswer("")] });
    assert.deepEqual([code, requests], [2, 0]);
    assert.match(err, message);
  }
});
