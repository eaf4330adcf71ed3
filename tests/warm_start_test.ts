/**
 * The warm start (docs/guides/warm_start.md) with the tiny model on the device: `svc collect`, training on what it
 * wrote, and `agent_grpo` from the adapter.
 */

import assert from "node:assert/strict";
import { TraceCollector } from "../agent/results/collect.ts";
import { collectInWorkers } from "../cli/collect_attempts.ts";
import { loadRunConfig } from "../config/check/load.ts";
import { gpuTest } from "../kernels/gpu_testing.ts";
import { readSftRows } from "../runs/algorithms/sft/sft_rows.ts";
import { readEvents } from "../runs/record/event_log.ts";
import { ofKind } from "../runs/run_fake.ts";
import { loadModelParts } from "../runs/session/model_parts.ts";
import { withFolder } from "./folder.ts";
import { CLI, type Keys, writeSmallAgent, writeTiny } from "./small_agent.ts";

function start(args: readonly string[]): Deno.ChildProcess {
  return new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", CLI, ...args],
    ...{ stdin: "null", stdout: "piped", stderr: "piped" },
  }).spawn();
}

/** Runs `svc` and returns its output; anything but success fails the test. */
async function svc(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await start(args).output();
  assert.equal(code, 0, new TextDecoder().decode(stderr));
  return new TextDecoder().decode(stdout);
}

/** One update of agent_grpo. */
const writeAgent = (root: string, more: Keys = {}) =>
  writeSmallAgent(root, {
    ...{
      "run.seed": 3,
      "training.lr": 3e-3,
      "agent.updates": 1,
      "agent.group_size": 2,
      "agent.max_turns": 3,
    },
    ...{ "agent.concurrent_rollouts": 8, ...more },
  });

/** Training on the rows of a file. */
const writeRows = (root: string, algorithm: string, { data, updates }: { data: string; updates: number }) =>
  writeTiny(root, algorithm, {
    ...{ "run.seed": 3, [`${algorithm}.data`]: data, "training.ctx": 640, "training.lr": 1e-3 },
    ...{ "training.updates": updates, "training.batch_tokens": 1280 },
  });

const linesOf = async (path: string) => (await Deno.readTextFile(path)).trimEnd().split("\n");

/** Collects from the first scenarios in this process: the rows, and for each the tokens that the policy sampled. */
async function collectHere(config: string, limit: number): Promise<{ lines: string[]; sampled: number[][] }> {
  const loaded = await loadRunConfig(config), { signal } = new AbortController();
  const collector = new TraceCollector({ rows: "traces", keep: 2, min_reward: null, min_gap: 0 });
  const deaf = { ended: () => {}, warn: () => {}, tell: () => {} };
  const options = { loaded, api: false, k: 4, limit, signal, ...deaf };
  const sampled: number[][] = [], lines: string[] = [];
  for await (const { scenario, group, trainsSampled } of collectInWorkers(options, `file://${CLI}`)) {
    for (const { member, row } of collector.take(group, scenario).rows) {
      lines.push(JSON.stringify(row));
      sampled.push(
        member.fragments.flatMap(({ tokens, spans }) =>
          spans.flatMap(({ start, end, origin }) => origin === "model" ? tokens.slice(start, end) : [])
        ),
      );
      assert.ok("messages" in row && trainsSampled!(member, row));
      const [first, ...messages] = row.messages.toReversed();
      const changed = { ...row, messages: [...messages.toReversed(), { ...first!, content: "Done. " }] };
      assert.equal(trainsSampled!(member, changed), false);
    }
  }
  return { lines, sampled };
}

/** The tokens of each row of a file that sft trains. */
async function trainedTokens(config: string, path: string): Promise<number[][]> {
  const { renderer } = await loadModelParts((await loadRunConfig(config)).config.model, {});
  const read = { renderer, train_on: "assistant" as const, variables: {}, ctx: 640 };
  const { sequences } = await readSftRows(path, read);
  return sequences.map(({ tokens, loss_mask }) => [...tokens].filter((_, i) => loss_mask[i] === 1));
}

gpuTest(
  "collect, sft on exactly the tokens of its traces, and agent_grpo from its adapter; pairs train with preference",
  () =>
    withFolder(async (root) => {
      const agent = await writeAgent(root), traces = `${root}/traces.jsonl`, report = `${root}/report.json`;
      const collect = (limit: number, ...more: string[]) =>
        svc("collect", agent, "--limit", `${limit}`, "--k", "4", ...more);
      const said = await collect(4, "--out", traces, "--report", report);
      assert.match(said, /^pass rate /);
      const reports: { attempts: number; kept: number }[] = Object.values(
        JSON.parse(await Deno.readTextFile(report)),
      );
      assert.deepEqual(reports.map(({ attempts }) => attempts), [4, 4, 4, 4]);
      const rows = await linesOf(traces);
      assert.equal(rows.length, reports.reduce((sum, { kept }) => sum + kept, 0));
      // The same seed gives the same rows, whatever follows, and sft trains exactly the tokens that were sampled.
      const { lines, sampled } = await collectHere(agent, 3);
      assert.ok(lines.length > 2);
      assert.deepEqual(lines, rows.slice(0, lines.length));
      assert.deepEqual((await trainedTokens(agent, traces)).slice(0, lines.length), sampled);

      const sft = await writeRows(root, "sft", { data: "traces.jsonl", updates: 2 });
      await svc("train", sft);
      const warm = await writeAgent(root, { "lora.init_adapter": "sft/adapter.gguf" });
      await svc("train", warm);
      const events = await Array.fromAsync(readEvents(`${root}/agent_grpo/events.jsonl`));
      assert.equal(ofKind(events, "end")[0]!.state, "completed");
      // The attempts start from the adapter: without it the same seed samples other tokens.
      await svc("train", await writeAgent(root), `run.directory=${root}/cold`);
      const cold = await Array.fromAsync(readEvents(`${root}/cold/events.jsonl`));
      const logprob = (all: typeof events) => ofKind(all, "metrics")[0]!.values["policy/logprob_mean"];
      assert.notEqual(logprob(events), logprob(cold));

      await collect(2, "--out", `${root}/pairs.jsonl`, "--pairs");
      const preference = await writeRows(root, "preference", { data: "pairs.jsonl", updates: 1 });
      await svc("train", preference);
      const [end] = ofKind(await Array.fromAsync(readEvents(`${root}/preference/events.jsonl`)), "end");
      assert.equal(end!.state, "completed");
    }),
);

gpuTest(
  "an interrupted or killed collection leaves whole rows in its .tmp",
  () =>
    withFolder(async (root) => {
      const agent = await writeAgent(root), out = `${root}/rows/traces.jsonl`;
      await Deno.mkdir(`${root}/rows`);
      const stoppedAtFirstRow = async (signal: Deno.Signal, ...more: string[]) => {
        using changes = Deno.watchFs(`${root}/rows`);
        const child = start(["collect", agent, "--out", out, "--k", "2", ...more]);
        const ended = child.output();
        for await (const { kind } of changes) {
          const { size } = await Deno.stat(`${out}.tmp`).catch(() => ({ size: 0 }));
          if (kind !== "modify" || size === 0) continue;
          child.kill(signal);
          break;
        }
        const { code, stderr } = await ended;
        const rows = await linesOf(`${out}.tmp`);
        for (const row of rows) assert.ok(JSON.parse(row).messages.length > 2);
        await assert.rejects(Deno.stat(out), Deno.errors.NotFound);
        return { code, err: new TextDecoder().decode(stderr) };
      };
      const interrupted = await stoppedAtFirstRow("SIGINT");
      assert.equal(interrupted.code, 130, interrupted.err);
      assert.match(
        interrupted.err,
        /rows? so far: .*traces\.jsonl\.tmp\nsvc: Cannot finish the collection: interr/,
      );
      const refused = await start(["collect", agent, "--out", out]).output();
      assert.equal(refused.code, 2);
      const killed = await stoppedAtFirstRow("SIGKILL", "--force");
      assert.equal(killed.code, 137);
    }),
);
