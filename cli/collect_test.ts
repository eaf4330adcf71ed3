import assert from "node:assert/strict";
import { rewardedGroup } from "../agent/rollout/group_testing.ts";
import { parseScenario } from "../data/scenario.ts";
import { ServiceError } from "../core/errors.ts";
import { withFolder } from "../tests/folder.ts";
import type { CollectedGroup, CollectOptions } from "./context.ts";
import { runSvc, testContext, testTerminal } from "./context_fake.ts";
import { runCli } from "./program.ts";

const EXAMPLES = new URL("../examples/", import.meta.url).pathname;
const GRPO = `${EXAMPLES}tiny_agent_grpo.toml`;

/** A scenario whose attempts have these rewards and different answers. */
function found(n: number, rewards: number[], more: Partial<CollectedGroup> = {}): CollectedGroup {
  const group = rewardedGroup(rewards, n);
  group.members.forEach((member, i) =>
    member.messages = [...group.prompt_messages, { role: "assistant", content: `answer ${n} ${i}` }]
  );
  const scenario = parseScenario({ id: `s${n}`, user: "q" }, { path: "s.jsonl", line: n + 1 });
  return { scenario, group, trainsSampled: () => true, ...more };
}

interface Collecting {
  /** The attempts, in place of which an error may come. */
  groups?: (CollectedGroup | ServiceError)[];
  interactive?: boolean;
  /** Called before each scenario. */
  before?: (n: number, interrupt: () => void) => void;
}

async function collect(
  args: string[],
  { groups = [found(0, [0, 1]), found(1, [1, 1])], ...more }: Collecting = {},
) {
  const terminal = testTerminal({ interactive: more.interactive ?? false });
  let asked: CollectOptions | null = null, interrupt = () => {};
  const exits: number[] = [];
  const code = await runCli(
    ["collect", ...args],
    testContext({
      terminal,
      exit: (code) => exits.push(code),
      onInterrupt(callback) {
        interrupt = callback;
        return () => {};
      },
      async *collect(options) {
        asked = options;
        await Promise.resolve();
        for (const [n, next] of groups.entries()) {
          more.before?.(n, interrupt);
          // As rollouts that are aborted.
          if (options.signal.aborted) {
            throw new ServiceError("cancelled", "Cannot finish the rollouts: cancelled");
          }
          if (next instanceof ServiceError) throw next;
          options.ended({ done: n + 1, total: groups.length });
          yield next;
        }
      },
    }),
  );
  return { code, out: terminal.out, err: terminal.err, exits, asked: asked as CollectOptions | null };
}

const answersIn = async (path: string) =>
  (await Deno.readTextFile(path)).trimEnd().split("\n").map((line) =>
    JSON.parse(line).messages.at(-1).content
  );

Deno.test("traces are written in order, with a summary and a report", () =>
  withFolder(async (root) => {
    const out = `${root}/new/traces.jsonl`, report = `${root}/report.json`;
    const { code, out: said, err, asked } = await collect([GRPO, "--out", out, "--report", report]);
    assert.deepEqual([code, err], [0, ""]);
    assert.deepEqual(await answersIn(out), ["answer 0 1", "answer 1 0", "answer 1 1"]);
    assert.match(
      said,
      /^pass rate 75\.0 % \(95 % interval .*; n = 2 scenarios, 4 attempts\)\n3 traces of 2 of 2 sc/,
    );
    assert.match(said, /\nnot kept: 1 low_reward\n$/);
    assert.deepEqual(JSON.parse(await Deno.readTextFile(report)), {
      s0: { attempts: 2, passes: 1, kept: 1, pass_rate: 0.5 },
      s1: { attempts: 2, passes: 2, kept: 2, pass_rate: 1 },
    });
    assert.deepEqual((await Array.fromAsync(Deno.readDir(`${root}/new`))).map(({ name }) => name), [
      "traces.jsonl",
    ]);
    const { k, limit, loaded: { config } } = asked!;
    assert.deepEqual([k, limit, config.run.seed, config.evaluation], [8, null, 1, undefined]);
  }));

Deno.test("options reach the attempts and the choice of rows", () =>
  withFolder(async (root) => {
    const out = `${root}/t.jsonl`, model = `${root}/other.gguf`;
    await Deno.writeTextFile(model, "");
    const args = [
      "--k",
      "3",
      "--limit",
      "5",
      "--seed",
      "7",
      "--model",
      model,
      "--keep",
      "1",
      "--min-reward",
      "0",
    ];
    const { asked } = await collect([GRPO, "--out", out, ...args]);
    const { k, limit, loaded: { config } } = asked!;
    assert.deepEqual([k, limit, config.run.seed, config.model.path], [3, 5, 7, model]);
    assert.deepEqual(await answersIn(out), ["answer 0 1", "answer 1 0"]);
    const pairs = `${root}/pairs.jsonl`;
    const { out: said } = await collect([GRPO, "--out", pairs, "--pairs", "--min-gap", "1"]);
    assert.match(said, /\n1 pair of 1 of 2 scenarios: .*pairs\.jsonl\nnot kept: 1 small_gap\n/);
    assert.equal(JSON.parse(await Deno.readTextFile(pairs)).rejected[0].content, "answer 0 0");
  }));

Deno.test("options that mean nothing together, and values outside of their ranges, are refused", async () => {
  const cases: [string[], RegExp][] = [
    [["--out", "x", "--k", "0"], /It must be: integer/],
    [["--out", "x", "--keep", "1.5"], /It must be: integer/],
    [["--out", "x", "--min-gap", "-1"], /It must be: number, at least 0/],
    [["--out", "x", "--min-reward", "much"], /It must be: number\./],
    [["--out", "x", "--pairs", "--keep", "1"], /--keep has no meaning/],
    [["--out", "x", "--min-gap", "1"], /--min-gap is about --pairs/],
    [[], /--out <file>' not specified/],
  ];
  for (const [args, reason] of cases) {
    const { code, err, asked } = await collect([GRPO, ...args]);
    assert.deepEqual([code, asked], [2, null], args.join(" "));
    assert.match(err, reason);
  }
  const { code, err } = await runSvc("collect", `${EXAMPLES}tiny_agent_sft.toml`, "--out", "x");
  assert.equal(code, 2);
  assert.match(err, /algorithm = "sft", and scenarios to attempt are in \[agent\]/);
});

Deno.test("an existing output is refused, and --force replaces only what a collection wrote", () =>
  withFolder(async (root) => {
    const out = `${root}/t.jsonl`, report = `${root}/r.json`;
    const args = [GRPO, "--out", out, "--report", report];
    await collect(args);
    const refused = async (args: string[], reason: RegExp) => {
      const { code, err, asked } = await collect(args);
      assert.deepEqual([code, asked], [2, null]);
      assert.match(err, reason);
    };
    await refused(args, /Cannot write --out .*t\.jsonl: it exists; --force replaces it/);
    assert.equal((await collect([...args, "--force"], { groups: [found(0, [1])] })).code, 0);
    assert.deepEqual(await answersIn(out), ["answer 0 0"]);
    // An interrupted collection is not lost by accident either.
    await Deno.rename(out, `${out}.tmp`);
    await refused(args, /t\.jsonl\.tmp: it exists/);
    await Deno.remove(`${out}.tmp`);
    await refused(args, /--report .*r\.json: it exists/);
    await Deno.writeTextFile(out, "my notes");
    await refused([...args, "--force"], /no collection wrote it/);
    await Deno.remove(out);
    await Deno.symlink(report, out);
    await refused([...args, "--force"], /it is a link/);
    assert.equal(JSON.parse(await Deno.readTextFile(report)).s0.attempts, 1);
  }));

Deno.test("an output that is an input, or belongs to the run, is refused", () =>
  withFolder(async (root) => {
    const config = `${root}/run.toml`;
    for (const name of ["model.gguf", "train.jsonl", "held.jsonl"]) {
      await Deno.writeTextFile(`${root}/${name}`, "{");
    }
    const text = (await Deno.readTextFile(GRPO)).replace(/^path = .*$/m, 'path = "model.gguf"')
      .replace(/^scenarios = .*$/m, 'scenarios = "train.jsonl"').replace(
        /^data = .*$/m,
        'data = "held.jsonl"',
      );
    await Deno.writeTextFile(config, text);
    const cases: [string[], RegExp][] = [
      [["--out", "train.jsonl"], /--out and agent\.scenarios are the same file/],
      [["--out", "model.gguf"], /--out and model\.path are the same file/],
      // Also data that no attempt uses.
      [["--out", "held.jsonl"], /--out and evaluation\.data are the same file/],
      [["--out", "run.toml"], /--out and the configuration are the same file/],
      [["--out", "runs/run/run.json"], /--out lies in run\.directory/],
      [["--out", "t.jsonl", "--report", "train.jsonl"], /--report and agent\.scenarios are the same file/],
      [
        ["--out", "t.jsonl", "--report", "t.jsonl"],
        /--out and --report are the same file|--report and --out/,
      ],
      [["--out", "t.jsonl", "--report", "t.jsonl.tmp"], /the same file/],
    ];
    for (const [args, reason] of cases) {
      const paths = args.map((arg) => arg.startsWith("--") ? arg : `${root}/${arg}`);
      const { code, err, asked } = await collect([config, ...paths, "--force"]);
      assert.deepEqual([code, asked], [2, null], args.join(" "));
      assert.match(err, reason);
    }
  }));

Deno.test("a Ctrl-C leaves what is complete in its .tmp and says so; a second one exits at once", () =>
  withFolder(async (root) => {
    const out = `${root}/t.jsonl`;
    const stop = (n: number, interrupt: () => void) => {
      if (n !== 1) return;
      interrupt();
      interrupt();
    };
    const { code, err, exits } = await collect([GRPO, "--out", out], { before: stop });
    assert.deepEqual([code, exits], [130, [130]]);
    assert.equal(err, `svc: 1 row so far: ${out}.tmp\nsvc: Cannot finish the collection: interrupted\n`);
    assert.deepEqual(await answersIn(`${out}.tmp`), ["answer 0 1"]);
    await assert.rejects(Deno.stat(out), Deno.errors.NotFound);
    // Nothing is left where there was nothing yet.
    const early = `${root}/early.jsonl`;
    const at_once = await collect([GRPO, "--out", early], { before: (_, interrupt) => interrupt() });
    assert.deepEqual([at_once.code, at_once.err], [130, "svc: Cannot finish the collection: interrupted\n"]);
    await assert.rejects(Deno.stat(`${early}.tmp`), Deno.errors.NotFound);
  }));

Deno.test("a failure of the machine leaves the .tmp as well", () =>
  withFolder(async (root) => {
    const out = `${root}/t.jsonl`, lost = new ServiceError("device_lost", "Cannot go on: the device is lost");
    const { code, err } = await collect([GRPO, "--out", out], { groups: [found(0, [1]), lost] });
    assert.equal(code, 1);
    assert.match(err, /1 row so far: .*t\.jsonl\.tmp\nsvc: Cannot go on: the device is lost/);
  }));

Deno.test("a collection without a row fails with the reasons and its report, and writes no file of rows", () =>
  withFolder(async (root) => {
    const out = `${root}/t.jsonl`, report = `${root}/r.json`;
    const { code, err } = await collect([GRPO, "--out", out, "--report", report], {
      groups: [found(0, [0, 0])],
    });
    assert.equal(code, 1);
    assert.match(err, /Cannot write .*t\.jsonl: none of 2 attempts can be kept \(2 low_reward\)/);
    assert.deepEqual((await Array.fromAsync(Deno.readDir(root))).map(({ name }) => name), ["r.json"]);
    const broken = found(0, [1]);
    Object.assign(broken.group.members[0]!, {
      stop_reason: "environment_failed",
      failure: { boundary: "environment", message: "no sandbox" },
    });
    const failed = await collect([GRPO, "--out", out], { groups: [broken] });
    assert.equal(failed.code, 1);
    assert.match(failed.err, /\(1 verify_failed\); first failure, of the environment: no sandbox/);
  }));

Deno.test("traces whose calls the template would write otherwise are counted", () =>
  withFolder(async (root) => {
    const groups = [found(0, [1], { trainsSampled: () => false }), found(1, [1])];
    const { out } = await collect([GRPO, "--out", `${root}/t.jsonl`], { groups });
    assert.match(out, /\n1 of the traces have calls that the template writes otherwise than the policy did/);
    const variables = ["agent.template_variables={enable_thinking=false}"];
    const { out: with_variables } = await collect([GRPO, ...variables, "--out", `${root}/u.jsonl`]);
    assert.match(with_variables, /\[sft\] template_variables = \{"enable_thinking":false\}/);
  }));

Deno.test("a terminal shows the progress", () =>
  withFolder(async (root) => {
    const { out } = await collect([GRPO, "--out", `${root}/t.jsonl`], { interactive: true });
    assert.ok(out.includes("attempts 2/2, 1 row kept for 0:00\r\x1b[2Kpass rate"), out);
  }));
