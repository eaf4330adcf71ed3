/** Rollouts in which every turn calls a slow tool, in the order of this program's scheduler or in lockstep. */

import type { Environment, EnvironmentFactory } from "../../agent/environment/environment.ts";
import type { ChatFormat } from "../../agent/rollout/chat_format.ts";
import { rolloutProgress } from "../../agent/rollout/scheduler.ts";
import type { CallAnswer } from "../../agent/tools/tool_host.ts";
import { actionTokens } from "../../agent/trajectory/trajectory.ts";
import type { Clock } from "../../core/clock.ts";
import { Rng } from "../../core/random.ts";
import type { Scenario } from "../../data/scenario.ts";
import type { EngineClient } from "../../trainer/protocol/client.ts";

/** The time of every tool call. */
export const TOOL_MS = 500;

/** The tokens of a turn are between these, drawn for each turn. The tiny model's own turns are shorter than others'. */
const TURN_TOKENS = [16, 96] as const;

/** The tokens that a tool's result adds to the sequence. */
const RESULT_TOKENS = 16;

/** Attempts of a group, and attempts at once. */
export const MEMBERS = 16;

/** The longest sequence in tokens. */
export const CONTEXT = 2048;

export type Schedule = "continuous" | "lockstep";

/** Calls of one tool in every turn, whatever the model writes, so that attempts have as many turns as they may. */
export function callingChat(own: ChatFormat): ChatFormat {
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
function slowEnvironments(schedule: Schedule, clock: Clock): EnvironmentFactory {
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
        await clock.sleep(TOOL_MS);
        return { result: "ok", reward: null, done: false };
      },
      grade: () => Promise.resolve({ reward: 0, timed_out: false }),
      state: () => Promise.resolve({ value: null }),
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
export class Watch {
  readonly #clock: Clock;
  #requests = 0;
  #since_ms = 0;
  #busy_ms = 0;

  constructor(readonly client: EngineClient, clock: Clock) {
    this.#clock = clock;
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
    if (this.#requests++ === 0) this.#since_ms = this.#clock.monotonic_ms();
  }

  #end(): void {
    if (--this.#requests === 0) this.#busy_ms += this.#clock.monotonic_ms() - this.#since_ms;
  }
}

/** What a rollout took. */
export interface Rolled {
  seconds: number;
  /** With a request at the engine. */
  busy_seconds: number;
  /** The model's own tokens of each attempt. */
  tokens: number[];
  calls: number;
}

interface SlowRollout {
  watch: Watch;
  clock: Clock;
  chat: ChatFormat;
  /** A group for each. */
  scenarios: readonly Scenario[];
  schedule: Schedule;
  turns: number;
}

/** Rolls out groups of {@link MEMBERS} attempts whose every turn calls the slow tool. */
export async function slowRollout(
  { watch, clock, chat, scenarios, schedule, turns }: SlowRollout,
): Promise<Rolled> {
  const started_ms = clock.monotonic_ms(), before_ms = watch.busy_ms;
  const progress = await Array.fromAsync(rolloutProgress({
    ...{ update: 1, scenarios, group_size: MEMBERS, concurrent_rollouts: MEMBERS },
    settings: {
      ...{ max_turns: turns, max_new_tokens_per_turn: TURN_TOKENS[1], max_trajectory_tokens: CONTEXT },
      ...{ max_rollout_secs: 0, end_on_no_tool_call: false, max_failed_turns: 0, system_suffix: "" },
      judge_failure: "drop_group",
    },
    sampling: { domain: "train", seed: 1, temperature: 1 },
    ...{ adapter: null, engine: watch.client, chat, graders: [] },
    environment: slowEnvironments(schedule, clock),
    ...{ clock, signal: new AbortController().signal },
  }));
  const members = progress.flatMap((item) => "group" in item ? item.group.members : []);
  return {
    seconds: (clock.monotonic_ms() - started_ms) / 1000,
    busy_seconds: (watch.busy_ms - before_ms) / 1000,
    tokens: members.map(actionTokens),
    calls: members.flatMap(({ turns }) => turns).length,
  };
}

/** The share of the time of rollouts in which the engine had no request. */
export function idleShare(rollouts: readonly Rolled[]): number {
  const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
  return 1 -
    sum(rollouts.map(({ busy_seconds }) => busy_seconds)) / sum(rollouts.map(({ seconds }) => seconds));
}
