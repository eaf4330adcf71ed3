/**
 * `deno task bench-rollouts [--quick]`: the share of a rollout in which the engine has nothing to do while tools take
 * half a second, with this program's scheduler and with a lockstep schedule of the same episodes. Prints both and stores
 * them in docs/bench/rollouts.jsonl. Nothing asserts a time.
 */

import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import type { Environment, EnvironmentFactory } from "../agent/environment/environment.ts";
import type { ChatFormat } from "../agent/rollout/chat_format.ts";
import type { RolloutOptions } from "../agent/rollout/rollout_options.ts";
import { rolloutProgress } from "../agent/rollout/scheduler.ts";
import type { CallAnswer } from "../agent/tools/tool_host.ts";
import { actionTokens } from "../agent/trajectory/trajectory.ts";
import { prepareGpuEnvironment } from "../cli/environment.ts";
import { systemClock } from "../core/clock.ts";
import { assert } from "../core/errors.ts";
import { Rng } from "../core/random.ts";
import { writeFileAtomic } from "../core/files.ts";
import { PAGE_TOKENS } from "../core/kv_pages.ts";
import { readScenarios } from "../data/scenario.ts";
import { chatOf, loadModelParts } from "../runs/session/model_parts.ts";
import { enginePermissions } from "../runs/session/session.ts";
import { startEngine } from "../runs/session/workers.ts";
import { fixturePath } from "../tests/fixture.ts";
import type { EngineClient } from "../trainer/protocol/client.ts";
import { currentCommit, machineName } from "./bench/report.ts";

const RESULTS = fileURLToPath(new URL("../docs/bench/rollouts.jsonl", import.meta.url));
const ENTRY = new URL("../cli.ts", import.meta.url).href;
const SCENARIOS = fileURLToPath(new URL("../examples/tiny_agent_tasks.train.jsonl", import.meta.url));

/** The time of every tool call. */
const TOOL_MS = 500;

/** The tool calls of an attempt. */
const TURNS = 16;

/** The tokens of a turn are between these, drawn for each turn. The tiny model's own turns are shorter than others'. */
const TURN_TOKENS = [16, 96] as const;

/** The tokens that a tool's result adds to the sequence. */
const RESULT_TOKENS = 16;

/** The groups of a rollout. With several, attempts of the next one take the places of those that have ended. */
const GROUPS = [1, 2];

/** Attempts of a group, and attempts at once. */
const MEMBERS = 16;

/** The longest sequence in tokens. */
const CONTEXT = 2048;

const SCHEDULES = ["continuous", "lockstep"] as const;

/** Calls of one tool in every turn, whatever the model writes, so that attempts have as many turns as they may. */
function callingChat(own: ChatFormat): ChatFormat {
  return {
    stop_tokens: own.stop_tokens,
    promptTokens: (...args) => own.promptTokens(...args),
    decode: (tokens) => own.decode(tokens),
    parseTurn: () => ({
      ...{ reasoning: null, content: "", malformed: [] },
      calls: [{ id: "call", name: "wait", arguments: {} }],
    }),
    continuation: ({ ended_by }) => {
      const tokens = Array<number>(RESULT_TOKENS).fill(ended_by);
      return { type: "extend", forced: [], tokens, origin: "tool" };
    },
  };
}

const TOOLS = [{ name: "wait", description: "Wait.", parameters: { type: "object", properties: {} } }];

/** Environments with one slow tool. In lockstep the calls of all live attempts begin together, when the last is made. */
function slowEnvironments(schedule: typeof SCHEDULES[number]): EnvironmentFactory {
  let live = 0;
  const waiting: (() => void)[] = [];
  const release = () => {
    if (waiting.length < live) return;
    for (const begin of waiting.splice(0)) begin();
  };
  const open = (): Environment => {
    live++;
    let is_open = true;
    return {
      async call(): Promise<CallAnswer> {
        if (schedule === "lockstep") {
          const { promise, resolve } = Promise.withResolvers<void>();
          waiting.push(resolve);
          release();
          await promise;
        }
        await systemClock.sleep(TOOL_MS);
        return { result: "ok", reward: null, done: false };
      },
      grade: () => Promise.resolve({ reward: 0, timed_out: false }),
      state: () => Promise.resolve(null),
      close() {
        if (is_open) live--;
        is_open = false;
        release();
        return Promise.resolve();
      },
    };
  };
  const catalog = { name: "wait", version: "1", tools: TOOLS };
  return {
    ...{ call_timeout_ms: 600_000, grading_advice: "" },
    catalog: () => Promise.resolve(catalog),
    catalogs: () => Promise.resolve([{ ...catalog, is_default: true }]),
    coverage: () => "all",
    open: () => Promise.resolve(open()),
    close: () => Promise.resolve(),
  };
}

/** Counts the time in which the engine has a request, and gives turns their lengths. */
class Watch {
  #requests = 0;
  #since_ms = 0;
  #busy_ms = 0;

  constructor(client: EngineClient) {
    const call = client.call.bind(client), generate = client.generate.bind(client);
    client.call = async (...args) => {
      this.#begin();
      try {
        return await call(...args);
      } finally {
        this.#end();
      }
    };
    const begin = () => this.#begin(), end = () => this.#end();
    client.generate = async function* (request) {
      begin();
      try {
        const [least, most] = TURN_TOKENS, rng = new Rng(request.sampling.rng_key);
        const max_tokens = least + rng.below(most - least + 1);
        for await (const block of generate({ ...request, max_tokens, stop_tokens: [] })) {
          yield { ...block, stop: block.stop === "max_tokens" ? "stop_token" : block.stop };
        }
      } finally {
        end();
      }
    };
  }

  /** The milliseconds so far; no request is under way. */
  get busy_ms(): number {
    return this.#busy_ms;
  }

  #begin(): void {
    if (this.#requests++ === 0) this.#since_ms = systemClock.monotonic_ms();
  }

  #end(): void {
    if (--this.#requests === 0) this.#busy_ms += systemClock.monotonic_ms() - this.#since_ms;
  }
}

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
    ...{ compute: "auto", kv: "auto", max_context: CONTEXT, max_sequences: MEMBERS + Math.max(...GROUPS) },
    kv_tokens: (MEMBERS + Math.max(...GROUPS)) * (CONTEXT + PAGE_TOKENS),
    ...{ micro_batch_tokens: CONTEXT, loss_chunk_rows: 256 },
  });
  const watch = new Watch(client);
  const rollOut = async (schedule: typeof SCHEDULES[number], groups: number, max_turns: number) => {
    const options: RolloutOptions = {
      ...{
        update: 1,
        scenarios: scenarios.slice(0, groups),
        group_size: MEMBERS,
        concurrent_rollouts: MEMBERS,
      },
      settings: {
        ...{
          max_turns,
          max_new_tokens_per_turn: TURN_TOKENS[1],
          max_trajectory_tokens: CONTEXT,
          max_rollout_secs: 0,
        },
        ...{
          end_on_no_tool_call: false,
          max_failed_turns: 0,
          system_suffix: "",
          judge_failure: "drop_group",
        },
      },
      sampling: { domain: "train", seed: 1, temperature: 1 },
      ...{ adapter: null, engine: client, chat, environment: slowEnvironments(schedule), graders: [] },
      ...{ clock: systemClock, signal: new AbortController().signal },
    };
    const started_ms = systemClock.monotonic_ms(), before_ms = watch.busy_ms;
    const progress = await Array.fromAsync(rolloutProgress(options));
    const members = progress.flatMap((item) => "group" in item ? item.group.members : []);
    const seconds = (systemClock.monotonic_ms() - started_ms) / 1000;
    const busy_seconds = (watch.busy_ms - before_ms) / 1000;
    const tokens = members.map(actionTokens), calls = members.flatMap(({ turns }) => turns).length;
    return { seconds, busy_seconds, idle_share: 1 - busy_seconds / seconds, tokens, calls };
  };
  // The first rollout compiles kernels.
  await rollOut("continuous", 1, 1);
  const rounded = (value: number) => Number(value.toPrecision(4));
  const about = {
    ...{ members: MEMBERS, tool_ms: TOOL_MS, device: facts.device.name, machine: await machineName() },
    ...{ commit: await currentCommit(), deno: Deno.version.deno },
  };
  const lines: string[] = [];
  const turns = is_quick ? 2 : TURNS;
  for (const groups of GROUPS) {
    const continuous = await rollOut("continuous", groups, turns);
    const lockstep = await rollOut("lockstep", groups, turns);
    assert(String(continuous.tokens) === String(lockstep.tokens), "both schedules have the same episodes");
    const ratio = rounded(continuous.idle_share / lockstep.idle_share);
    for (const [schedule, { tokens, ...measured }] of Object.entries({ continuous, lockstep })) {
      const { idle_share, seconds, busy_seconds, calls } = measured;
      const line = {
        ...{ bench: "rollouts", schedule, groups, turns, idle_share: rounded(idle_share), ratio },
        ...{ seconds: rounded(seconds), busy_seconds: rounded(busy_seconds), calls },
        ...{ tokens: tokens.reduce((sum, n) => sum + n, 0), ...about },
        ...{ load_average: Deno.loadavg()[0], time: new Date().toISOString() },
      };
      lines.push(JSON.stringify(line));
      console.log(`${groups} groups, ${schedule}`, { idle_share: line.idle_share, seconds: line.seconds });
    }
    console.log(`${groups} groups: continuous ÷ lockstep = ${ratio}`);
  }
  console.log(`${about.machine}, ${about.device}`);
  await engine.close();
  if (!is_quick) await writeFileAtomic(RESULTS, `${lines.join("\n")}\n`);
  Deno.exit(0);
}
