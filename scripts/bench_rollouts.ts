/**
 * `deno task bench-rollouts [--quick]`: the share of a rollout in which the engine has nothing to do while tools take
 * half a second, with this program's scheduler and with a lockstep schedule of the same episodes, and the work of both.
 * Prints both and stores them in docs/bench/rollouts.jsonl. Nothing asserts a time.
 */

import process from "node:process";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { prepareGpuEnvironment } from "../cli/environment.ts";
import { systemClock } from "../core/clock.ts";
import { assert } from "../core/errors.ts";
import { writeFileAtomic } from "../core/files.ts";
import { PAGE_TOKENS } from "../core/kv_pages.ts";
import { readScenarios } from "../data/scenario.ts";
import { chatOf, loadModelParts } from "../runs/session/model_parts.ts";
import { enginePermissions } from "../runs/session/session.ts";
import { startEngine } from "../runs/session/workers.ts";
import { fixturePath } from "../tests/fixture.ts";
import { currentCommit, machineName } from "./bench/report.ts";
import {
  callingChat,
  CONTEXT,
  idleShare,
  MEMBERS,
  type Rolled,
  type Schedule,
  slowRollout,
  TOOL_MS,
  Watch,
} from "./bench/slow_rollouts.ts";

const RESULTS = fileURLToPath(new URL("../docs/bench/rollouts.jsonl", import.meta.url));
const ENTRY = new URL("../cli.ts", import.meta.url).href;
const SCENARIOS = fileURLToPath(new URL("../examples/tiny_agent_tasks.train.jsonl", import.meta.url));

/**
 * The groups of a rollout, and the tool calls of an attempt. With several groups, attempts of the next one take the places
 * of those that have ended.
 */
const ROLLOUTS = [{ groups: 1, turns: 16 }, { groups: 2, turns: 8 }, { groups: 1, turns: 8 }];

const MOST_GROUPS = 2;

/** Each schedule twice, in an order in which a steady change of the machine's load weighs the same for both. */
const ORDER: readonly Schedule[] = ["continuous", "lockstep", "lockstep", "continuous"];

/** The processor time of this process. On a software adapter this is the work of the engine, whoever else works. */
function processorSeconds(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
}

interface Measured extends Rolled {
  processor_seconds: number;
  steps: number;
  decode_tokens: number;
  /** Passes over given tokens alone. */
  prefills: number;
}

const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);

if (import.meta.main) {
  const { values } = parseArgs({ options: { quick: { type: "boolean" } } });
  const is_quick = values.quick ?? false;
  prepareGpuEnvironment();
  const path = await fixturePath("models/tiny-agent-f16.gguf");
  const chat = callingChat(chatOf(await loadModelParts({ path }, {})));
  const scenarios = await readScenarios(SCENARIOS);
  const engine = startEngine({ entry_url: ENTRY, permissions: enginePermissions("auto", { read: [path] }) });
  const { client } = engine;
  const facts = await client.call("load", {
    path,
    device: { device: "auto", webgpu: "auto" },
    ...{ compute: "auto", kv: "auto", max_context: CONTEXT, max_sequences: MEMBERS + MOST_GROUPS },
    kv_tokens: (MEMBERS + MOST_GROUPS) * (CONTEXT + PAGE_TOKENS),
    ...{ micro_batch_tokens: CONTEXT, loss_chunk_rows: 256 },
  });
  const watch = new Watch(client, systemClock);
  const rollOut = async (schedule: Schedule, groups: number, turns: number): Promise<Measured> => {
    const before = await client.call("counters", null), processor = processorSeconds();
    const given = { watch, clock: systemClock, chat, scenarios: scenarios.slice(0, groups) };
    const rolled = await slowRollout({ ...given, schedule, turns });
    const processor_seconds = processorSeconds() - processor, after = await client.call("counters", null);
    return {
      ...{ ...rolled, processor_seconds, steps: after.decode_steps - before.decode_steps },
      decode_tokens: after.decode_tokens - before.decode_tokens,
      prefills: after.prefill_steps - before.prefill_steps,
    };
  };
  // The first rollout compiles kernels.
  await rollOut("continuous", 1, 1);
  const rounded = (value: number) => Number(value.toPrecision(4));
  const about = {
    ...{ members: MEMBERS, tool_ms: TOOL_MS, device: facts.device.name, machine: await machineName() },
    ...{ commit: await currentCommit(), deno: Deno.version.deno },
  };
  const lines: string[] = [];
  for (const { groups, turns } of is_quick ? [{ groups: 1, turns: 2 }] : ROLLOUTS) {
    const measured: Record<Schedule, Measured[]> = { continuous: [], lockstep: [] };
    for (const schedule of ORDER) measured[schedule].push(await rollOut(schedule, groups, turns));
    const all = Object.values(measured).flat().map(({ tokens }) => String(tokens));
    assert(new Set(all).size === 1, "both schedules have the same episodes");
    const ratio = rounded(idleShare(measured.continuous) / idleShare(measured.lockstep));
    for (const [schedule, both] of Object.entries(measured)) {
      const mean = (value: (one: Measured) => number) => rounded(sum(both.map(value)) / both.length);
      const line = {
        ...{ bench: "rollouts", schedule, groups, turns, idle_share: rounded(idleShare(both)), ratio },
        seconds: mean((one) => one.seconds),
        idle_seconds: mean((one) => one.seconds - one.busy_seconds),
        processor_seconds: mean((one) => one.processor_seconds),
        steps: mean((one) => one.steps),
        rows_per_step: rounded(sum(both.map((one) => one.decode_tokens)) / sum(both.map((one) => one.steps))),
        prefills: mean((one) => one.prefills),
        ...{ calls: both[0]!.calls, tokens: sum(both[0]!.tokens), repeats: both.length, ...about },
        ...{ load_average: Deno.loadavg()[0], time: new Date().toISOString() },
      };
      lines.push(JSON.stringify(line));
      const { idle_share, seconds, processor_seconds, steps, rows_per_step, prefills } = line;
      console.log(`${groups} groups of ${turns} turns, ${schedule}`, {
        ...{ idle_share, seconds, processor_seconds, steps, rows_per_step, prefills },
      });
    }
    console.log(`${groups} groups of ${turns} turns: continuous ÷ lockstep = ${ratio}`);
  }
  console.log(`${about.machine}, ${about.device}`);
  await engine.close();
  if (!is_quick) await writeFileAtomic(RESULTS, `${lines.join("\n")}\n`);
  Deno.exit(0);
}
