/** Fakes for rollout tests: a chat of 64 characters, and an environment whose tools fail on request. */

import type { Message, ParsedTurn, ToolCall, ToolFunction } from "../../core/chat.ts";
import { ManualClock } from "../../core/clock_fake.ts";
import { assert, ServiceError } from "../../core/errors.ts";
import { parseScenario, type Scenario } from "../../data/scenario.ts";
import type { EngineClient } from "../../trainer/protocol/client.ts";
import type { Coverage, Environment, EnvironmentFactory } from "../environment/environment.ts";
import { environmentGrader } from "../grading/environment_grader.ts";
import type { CallAnswer } from "../tools/tool_host.ts";
import type { Group } from "../trajectory/group.ts";
import type { ChatFormat, Continuation } from "./chat_format.ts";
import type { RolloutOptions, RolloutSettings } from "./rollout_options.ts";
import { rolloutProgress } from "./scheduler.ts";

/** 63 characters, one token each; token 63 ends a turn. */
const ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789 {}[]\":,._-+*/=()!?<>#\n'NCT";
export const END = 63;

const tokenOf = (char: string) => ALPHABET.slice(0, END).indexOf(char);

/** The tokens of a text of the alphabet. */
export function textTokens(text: string): number[] {
  return Array.from(text, (char) => {
    const token = tokenOf(char);
    assert(token >= 0, `the test alphabet has no ${JSON.stringify(char)}`);
    return token;
  });
}

/** Any text with `?` for each character that the alphabet lacks. */
export const inAlphabet = (text: string): string =>
  Array.from(text, (char) => tokenOf(char) < 0 ? "?" : char).join("");

/** The tokens of a complete turn. */
export const turnTokens = (text: string): number[] => [...textTokens(text), END];

/** A call in the form of {@link TextChat}. */
export const callText = (name: string, args: object = {}): string =>
  JSON.stringify({ name, arguments: args });

/** One line for each message; in a turn, each line that starts with `{` is a call. */
export class TextChat implements ChatFormat {
  readonly stop_tokens = [END];

  /** @param restarts Whether every turn is a fragment of its own, as with a template that is not prefix-stable. */
  constructor(readonly restarts = false) {}

  promptTokens(messages: readonly Message[]): number[] {
    return textTokens(this.prompt(messages));
  }

  protected prompt(messages: readonly Message[]): string {
    return `${messages.map(line).join("")}a:`;
  }

  decode(tokens: readonly number[]): string {
    return tokens.map((token) => token === END ? "!" : ALPHABET[token]!).join("");
  }

  parseTurn(text: string): ParsedTurn {
    const lines = text.split("\n"), is_call = (line: string) => line.startsWith("{");
    const content = lines.filter((line) => !is_call(line)).join("\n");
    const turn: ParsedTurn = { reasoning: null, content, calls: [], malformed: [] };
    for (const [index, line] of lines.filter(is_call).entries()) {
      try {
        turn.calls.push({ id: `call_${index}`, ...JSON.parse(line) });
      } catch {
        turn.malformed.push({ index, text: line, reason: "no json" });
      }
    }
    return turn;
  }

  continuation({ messages, turn }: { messages: readonly Message[]; turn: number }): Continuation {
    if (this.restarts) return { type: "restart", tokens: this.promptTokens(messages) };
    const added = messages.slice(turn + 1).map(line).join("");
    return { type: "extend", forced: [], tokens: textTokens(`\n${added}a:`), origin: "tool" };
  }
}

const line = ({ role, content, tool_calls = [] }: Message): string =>
  `${role[0]}:${content}${tool_calls.map(({ function: f }) => callText(f.name, f.arguments)).join("\n")}\n`;

const tool = (name: string, properties: Record<string, unknown> = {}): ToolFunction => ({
  name,
  description: name,
  parameters: { type: "object", properties, required: Object.keys(properties) },
});

export const TEST_TOOLS: ToolFunction[] = [
  tool("say", { text: { type: "string" } }),
  tool("reward", { value: { type: "number" } }),
  tool("hang"),
  tool("fail"),
  tool("end"),
  tool("submit"),
];

const TEST_CATALOG = { name: "test", version: "1", tools: TEST_TOOLS };

/** The behaviour of {@link testEnvironments} besides its tools; each part may hang or throw. */
export interface TestEnvironmentOptions {
  call_timeout_ms?: number;
  /** Default: it grades all groups. */
  coverage?: (scenario: Scenario) => Coverage;
  open?: (scenario: Scenario, seed: number) => Promise<void> | void;
  /** What attempts start with. */
  observation?: (scenario: Scenario, seed: number) => unknown;
  grade?: (scenario: Scenario, said: string[]) => Promise<number | null> | number | null;
  /** Receives every event. */
  log?: (event: string) => void;
}

export interface TestEnvironments extends EnvironmentFactory {
  /** Opened and not yet closed. */
  live: number;
}

const HANG = new Promise<never>(() => {});

/** Environments whose tools do what their names say. By default the reward is the number of `say` calls. */
export function testEnvironments(options: TestEnvironmentOptions = {}): TestEnvironments {
  const factory: TestEnvironments = {
    call_timeout_ms: options.call_timeout_ms ?? 1000,
    grading_advice: "give it a reward",
    live: 0,
    catalog: () => Promise.resolve(TEST_CATALOG),
    catalogs: () => Promise.resolve([{ ...TEST_CATALOG, is_default: true }]),
    coverage: options.coverage ?? (() => "all"),
    close: () => Promise.resolve(),
    async open(scenario, { seed }): Promise<Environment> {
      await options.open?.(scenario, seed);
      const said: string[] = [];
      factory.live++;
      return {
        observation: options.observation?.(scenario, seed),
        call: (call) => {
          options.log?.(`${scenario.id} ${call.name}`);
          return runTestTool(call, said);
        },
        grade: async () => ({
          reward: await (options.grade ? options.grade(scenario, said) : said.length),
          timed_out: false,
        }),
        state: () => Promise.resolve({ value: said.length > 0 ? said : null }),
        close: () => {
          factory.live--;
          return Promise.resolve();
        },
      };
    },
  };
  return factory;
}

async function runTestTool(call: ToolCall, said: string[]): Promise<CallAnswer> {
  const answer: CallAnswer = { result: "ok", reward: null, done: false };
  if (call.name === "hang") await HANG;
  if (call.name === "fail") throw new ServiceError("tool_failed", "Cannot run the tool: it broke");
  if (call.name === "say") said.push(String(call.arguments.text));
  if (call.name === "reward") return { ...answer, reward: Number(call.arguments.value) };
  if (call.name === "end" || call.name === "submit") return { result: null, reward: null, done: true };
  return answer;
}

/** Scenarios with only an id, which is also the user's message. */
export function testScenarios(...ids: string[]): Scenario[] {
  return ids.map((id, i) => parseScenario({ id, user: id }, { path: "x", line: i + 1 }));
}

const TEST_SETTINGS: RolloutSettings = {
  max_turns: 6,
  max_new_tokens_per_turn: 200,
  max_trajectory_tokens: 2000,
  max_rollout_secs: 300,
  end_on_no_tool_call: true,
  max_failed_turns: 0,
  system_suffix: "",
  judge_failure: "drop_group",
};

export interface TestRollout extends Omit<Partial<RolloutOptions>, "settings"> {
  settings?: Partial<RolloutSettings>;
}

/** Options of a rollout with a clock that stands still. */
export function testRollout(
  engine: EngineClient,
  more: TestRollout = {},
): RolloutOptions & { clock: ManualClock } {
  const { settings, environment = testEnvironments(), ...rest } = more;
  return {
    update: 0,
    scenarios: testScenarios("s"),
    group_size: 1,
    concurrent_rollouts: 8,
    sampling: { domain: "train", seed: 42, temperature: 1 },
    adapter: null,
    engine,
    chat: new TextChat(),
    environment,
    graders: [environmentGrader(environment)],
    signal: new AbortController().signal,
    ...rest,
    clock: new ManualClock(),
    settings: { ...TEST_SETTINGS, ...settings },
  };
}

/** Only the groups of {@link rolloutProgress}. */
export async function* rolloutGroups(options: RolloutOptions): AsyncGenerator<Group, void> {
  for await (const item of rolloutProgress(options)) if ("group" in item) yield item.group;
}
