/** A complete run without GPU or workers for this room's tests: a scripted engine, and episodes of one word. */

import type { ConfiguredWorld } from "../agent/configured.ts";
import { environmentGrader } from "../agent/grading/environment_grader.ts";
import type { Grader } from "../agent/grading/grader.ts";
import type { Tapes } from "../agent/recording/tape.ts";
import type { ChatFormat } from "../agent/rollout/chat_format.ts";
import { inAlphabet, testEnvironments, testScenarios, TextChat } from "../agent/rollout/rollout_fake.ts";
import type { ResolvedConfig } from "../config/check/derive.ts";
import { AsyncQueue } from "../core/async_queue.ts";
import type { Message, ParsedTurn } from "../core/chat.ts";
import type { Clock } from "../core/clock.ts";
import { ManualClock } from "../core/clock_fake.ts";
import type { EngineClient } from "../trainer/protocol/client.ts";
import type { EngineMethod, EngineMethods } from "../trainer/protocol/protocol.ts";
import { AgentGrpo } from "./algorithms/agent_grpo/agent_grpo.ts";
import { type Algorithm, POLICY } from "./algorithms/algorithm.ts";
import type { PairData } from "./algorithms/preference/pair_rows.ts";
import { Preference, type PreferenceOptions } from "./algorithms/preference/preference.ts";
import { algorithmOf } from "./algorithms/registry.ts";
import { Sft } from "./algorithms/sft/sft.ts";
import type { SftData, SftSequence } from "./algorithms/sft/sft_rows.ts";
import type { ChatModel } from "./chat/answer_chat.ts";
import { type Identity, identityOf } from "./directory/config_identity.ts";
import type { PreparedRun } from "./plan/prepare.ts";
import type { PlanWarning } from "./record/warning.ts";
import type { ControlMessage, ControlPort } from "./process/control.ts";
import { type StartedRun, startPrepared, type StartPreparedOptions } from "./process/process.ts";
import type { RunEvent } from "./record/event.ts";
import { type AgentHost, createAgentHost, rolloutSettings } from "./session/agent_host.ts";
import type { Session } from "./session/session.ts";
import { testConfig } from "./config_testing.ts";

/** Every turn says its entire text and submits; a fifth of the characters end a turn. Clients ask it anything. */
class WordChat extends TextChat {
  override readonly stop_tokens = Array.from({ length: 13 }, (_, i) => 51 + i);

  protected override prompt(messages: readonly Message[]): string {
    return inAlphabet(super.prompt(messages));
  }

  override parseTurn(text: string): ParsedTurn {
    const calls = [
      { id: "call_0", name: "say", arguments: { text } },
      { id: "call_1", name: "submit", arguments: {} },
    ];
    return { reasoning: null, content: "", calls, malformed: [] };
  }
}

/** The share of vowels in the text: it differs between members, and training raises it. */
export function vowels(said: readonly string[]): number {
  const text = said.join("");
  return [...text].filter((char) => "aeiou".includes(char)).length / Math.max(1, text.length);
}

const HELDOUT = ["kl", "mn", "op"];

export const MORE = `
[evaluation]
data = "heldout.jsonl"
every_updates = 2
samples_per_scenario = 2
[checkpoint]
every_updates = 1
keep = 100
`;

type Refuse = (method: EngineMethod, request: unknown) => void | Promise<void>;

export interface TestRunOptions {
  root: string;
  /** The scripted engine, which only test files may import. */
  newEngine: (refuse: Refuse) => EngineClient;
  /** Absent: one that stands still. */
  clock?: Clock;
  /** TOML to append to the configuration; absent: evaluation and checkpoints. */
  more?: string;
  change?: (config: ResolvedConfig) => void;
  /**
   * Throws to refuse a request to an engine; the engine answers after a promise that it returns. `engine` counts the
   * run's engines from 1.
   */
  refuse?: (method: EngineMethod, request: unknown, engine: number) => void | Promise<void>;
  /** A reward that replaces the share of vowels. */
  verify?: (scenario: string, said: string[]) => number | Promise<number>;
  /** Replaces the environment's grading. */
  graders?: readonly Grader[];
  /** Replaces environments and graders. */
  world?: ConfiguredWorld;
  /** Records or replays the rollouts. */
  tapes?: Tapes;
  /** Warnings from before the run. */
  warnings?: PlanWarning[];
  /** Replaces the configured algorithm. */
  algorithm?: Algorithm;
  /** Replaces the identity of the configuration. */
  identity?: Identity;
  /** Replaces the chat format, whose turns are one word. */
  chat?: ChatFormat;
  /** More options for the start of the run. */
  start?: Partial<StartPreparedOptions>;
}

/** The configuration of {@link startTestRun}. */
export function testRunConfig(
  { root, more = MORE, change }: Omit<TestRunOptions, "newEngine">,
): ResolvedConfig {
  const config = testConfig(root, more);
  change?.(config);
  return config;
}

export async function startTestRun(options: TestRunOptions): Promise<StartedRun> {
  const config = testRunConfig(options);
  const { algorithm, warnings = [] } = options;
  const clock = options.clock ?? new ManualClock();
  let engines = 0;
  const openSession = (): Promise<Session> => {
    const number = ++engines;
    const engine = options.newEngine((method, request) => options.refuse?.(method, request, number));
    const { verify, graders, world, chat, tapes } = options;
    const agent = testAgentHost({ config, engine, clock, verify, graders, world, chat, tapes });
    const messages = world?.messages ?? noMessages();
    return Promise.resolve({ engine, agent, messages, close: () => Promise.resolve() });
  };
  return await startPrepared(
    {
      ...testPrepared(config),
      warnings,
      ...(algorithm && { createAlgorithm: () => algorithm }),
      ...(options.identity && { identity: options.identity }),
    },
    {
      mode: "new",
      checkpoint: null,
      force: false,
      clock,
      openSession,
      ...options.start,
    },
  );
}

/** What chats need of a text chat: prompts and texts. */
function chatModel(chat: TextChat): ChatModel {
  const textOf = (id: number) => chat.decode([id]);
  const tokenizer = {
    end_ids: chat.stop_tokens,
    has_space_prefix: false,
    isControl: () => false,
    decode: (ids: Iterable<number>) => chat.decode([...ids]),
    textOf,
    bytesOf: (id: number) => new TextEncoder().encode(textOf(id)),
  };
  const renderPrompt = (messages: readonly Message[]) => ({ text: "", ids: chat.promptTokens(messages) });
  return {
    renderer: { tokenizer, renderPrompt },
    probe: { tool_call_format: "none" },
    variables: {},
  } as unknown as ChatModel;
}

/** What graders say when there are none. */
export function noMessages(): AsyncQueue<string> {
  const messages = new AsyncQueue<string>();
  messages.close();
  return messages;
}

/** Episodes of one word on a scripted engine. */
export function testAgentHost(
  { config, engine, clock, verify = (_, said) => vowels(said), ...more }: {
    config: ResolvedConfig;
    engine: EngineClient;
    clock: Clock;
    verify?: TestRunOptions["verify"] | undefined;
    graders?: TestRunOptions["graders"] | undefined;
    world?: ConfiguredWorld | undefined;
    chat?: ChatFormat | undefined;
    tapes?: Tapes | undefined;
  },
): AgentHost {
  const environment = more.world?.environments ??
    testEnvironments({ grade: ({ id }, said) => verify(id, said) });
  const settings = config.agent ? rolloutSettings(config.agent) : null;
  const { ctx: max_context } = config.training;
  const words = new WordChat(), { chat = words } = more;
  const { graders = more.world?.graders ?? [environmentGrader(environment)] } = more;
  const model = chatModel(words);
  const { tapes = null } = more;
  return createAgentHost({ settings, engine, chat, model, max_context, environment, graders, tapes, clock });
}

const sequence = (first: number): SftSequence => ({
  tokens: Uint32Array.from({ length: 12 }, (_, i) => (first + 5 * i) % 64),
  loss_mask: Uint8Array.from({ length: 12 }, (_, i) => i > 3 ? 1 : 0),
  trained_tokens: 8,
  line: first,
});

function rowsOf(...firsts: number[]): SftData {
  return { sequences: firsts.map(sequence), rows: firsts.length, truncated: [] };
}

function pairsOf(...firsts: number[]): PairData {
  const pairs = firsts.map((first) => ({
    chosen: [sequence(first)],
    rejected: [sequence(first + 2)],
    prefix_length: 0,
    line: first,
  }));
  return { pairs, rows: pairs.length, truncated: [], left_out: [] };
}

type SharedOptions = Pick<PreferenceOptions, "config" | "engine" | "adapter" | "clock">;

function testAlgorithm(shared: SharedOptions, agent: AgentHost): Algorithm {
  const is_evaluated = shared.config.evaluation !== undefined;
  switch (shared.config.run.algorithm) {
    case "sft":
      return new Sft({ ...shared, data: rowsOf(1, 2, 3, 4, 5), heldout: is_evaluated ? rowsOf(9) : null });
    case "preference":
      return new Preference({
        ...shared,
        data: pairsOf(1, 2, 3, 4, 5),
        heldout: is_evaluated ? pairsOf(9) : null,
      });
    case "agent_grpo": {
      const scenarios = testScenarios("ab", "cd", "ef", "gh", "ij");
      return new AgentGrpo({
        ...shared,
        agent,
        scenarios,
        heldout: is_evaluated ? testScenarios(...HELDOUT) : null,
      });
    }
  }
}

/** The run of {@link startTestRun} before its start. */
export function testPrepared(config: ResolvedConfig): PreparedRun {
  return {
    config,
    definition: algorithmOf(config),
    identity: identityOf(config, { "model.path": "m", "agent.scenarios": "s", "evaluation.data": "e" }),
    ...{ warnings: [], files: [] },
    createAlgorithm: ({ engine, agent }, clock) =>
      testAlgorithm({ config, engine, adapter: POLICY, clock }, agent),
  };
}

/** Makes every optimiser step report that it was skipped, as for a loss that is not finite. */
export function skipSteps(engine: EngineClient): void {
  const call = engine.call.bind(engine);
  engine.call = async (method, request, ...rest) => {
    const answer = await call(method, request, ...rest);
    return method === "train_step" ? { ...answer, skipped: true } : answer;
  };
}

/** Changes a configuration to SFT, five updates of one row. */
export function useSft(config: ResolvedConfig): void {
  config.run.algorithm = "sft";
  delete config.agent;
  config.sft = { data: "rows.jsonl", packing: true, train_on: "assistant", template_variables: {} };
  config.training.batch_tokens = 12;
}

/** Changes a configuration to preference training, five updates of one pair. */
export function usePreference(config: ResolvedConfig): void {
  config.run.algorithm = "preference";
  delete config.agent;
  config.preference = { data: "pairs.jsonl", loss: "dpo", beta: 0.1, gamma: 1, lambda: 0.1 };
  config.training.batch_tokens = 12;
}

/**
 * Sets held-out pass rates by update, whatever the texts; the training reward is the share of vowels. `refuse` follows
 * the updates that an engine has done, so that a resumed run is measured like an uninterrupted one.
 *
 * @param passing How many of the three held-out scenarios pass after update 0, 1, 2, …
 */
export function heldoutByUpdate(passing: readonly number[]): {
  refuse: (method: EngineMethod, request: unknown) => void;
  verify: (scenario: string, said: string[]) => number;
} {
  let update = 0;
  return {
    refuse(method, request) {
      if (method === "load") update = 0;
      else if (method === "train_step") update++;
      else if (method === "checkpoint_load") {
        const { directory } = request as EngineMethods["checkpoint_load"]["request"];
        update = Number(/update_(\d+)$/.exec(directory)![1]);
      }
    },
    verify(scenario, said) {
      const place = HELDOUT.indexOf(scenario);
      return place < 0 ? vowels(said) : place < passing[update]! ? 1 : 0;
    },
  };
}

/** Copies a folder in its current state, as a kill would leave it. */
export function copyFolder(from: string, to: string): void {
  Deno.mkdirSync(to, { recursive: true });
  for (const { name, isDirectory } of Deno.readDirSync(from)) {
    if (isDirectory) copyFolder(`${from}/${name}`, `${to}/${name}`);
    else Deno.copyFileSync(`${from}/${name}`, `${to}/${name}`);
  }
}

/** All events of a run, once it has ended. */
export async function eventsOf(run: StartedRun): Promise<RunEvent[]> {
  return await Array.fromAsync(run.events);
}

/** The events of one kind, in order. */
export function ofKind<K extends RunEvent["kind"]>(
  events: readonly RunEvent[],
  kind: K,
): Extract<RunEvent, { kind: K }>[] {
  return events.filter((event): event is Extract<RunEvent, { kind: K }> => event.kind === kind);
}

/** A control pipe whose other end is the test. */
export function testPipe(): {
  port: ControlPort;
  send(command: object): void;
  /** Ends the pipe, as when the server dies. */
  end(): void;
  sent: ControlMessage[];
} {
  const lines = new AsyncQueue<string>();
  const sent: ControlMessage[] = [];
  return {
    port: { lines, send: (message) => sent.push(message) },
    send: (command) => lines.push(JSON.stringify(command)),
    end: () => lines.close(),
    sent,
  };
}

/** Fails the n-th request of a kind to the first engine. */
export function failAt(
  method: string,
  n: number,
): (method: string, request: unknown, engine: number) => void {
  let count = 0;
  return (called) => {
    if (called === method && ++count === n) throw new Error("broken on purpose");
  };
}
