/** Short agent_grpo runs of the tiny agent by `svc train`. */

import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { RunEvent } from "../runs/record/event.ts";
import { fixturePath } from "./fixture.ts";

/** The program. */
export const CLI = fileURLToPath(new URL("../cli.ts", import.meta.url));

/** Keys by dotted name. */
export type Keys = Readonly<Record<string, unknown>>;

/** No limit of time, and every attempt counts: what a run does is a function of its seed. */
const SHORT: Keys = {
  "training.ctx": 640,
  "agent.updates": 2,
  "agent.scenarios_per_update": 2,
  "agent.group_size": 3,
  "agent.max_new_tokens_per_turn": 48,
  "agent.max_rollout_secs": 0,
  "agent.truncation": "min_reward",
  "agent.environment.type": "local",
  "agent.environment.allow_unsandboxed": true,
  "agent.environment.scenario_toolsets": ["files"],
  "agent.environment.limits.exec_timeout_secs": 3600,
  "observe": {},
};

/** Of a run on tasks that nothing verifies. Each has a `summary` command, whose output is the state that a judge sees. */
export const JUDGED: Keys = {
  // The prompt of a judge in the base model takes about half of the model's context.
  "training.ctx": 1024,
  "training.lr": 3e-3,
  "agent.scenarios": fileURLToPath(new URL("../examples/tiny_agent_reward_tasks.jsonl", import.meta.url)),
  "agent.max_trajectory_tokens": 640,
  "agent.max_turns": 3,
  "agent.max_dropped_fraction": 1,
  "agent.judge.rubric": "The file must be right.",
  "agent.judge.timeout_secs": 3600,
};

/** Writes the configuration of a run of the tiny agent with these keys, in a folder of the algorithm's name. */
export async function writeTiny(root: string, algorithm: string, keys: Keys): Promise<string> {
  const path = join(root, `${algorithm}.toml`);
  const all = {
    "run.algorithm": algorithm,
    "run.directory": algorithm,
    "model.path": await fixturePath("models/tiny-agent-f16.gguf"),
    ...keys,
  };
  const lines = Object.entries(all).map(([key, value]) => `${key} = ${JSON.stringify(value)}\n`);
  await Deno.writeTextFile(path, lines.join(""));
  return path;
}

/** Writes the configuration of a short run of agent_grpo, on the tasks of the fixture where the keys name no others. */
export async function writeSmallAgent(root: string, keys: Keys): Promise<string> {
  const scenarios = await fixturePath("models/tiny-agent/scenarios.train.jsonl");
  return await writeTiny(root, "agent_grpo", { "agent.scenarios": scenarios, ...SHORT, ...keys });
}

/** How a training is run. */
interface TrainOptions {
  args?: readonly string[];
  env?: Record<string, string>;
  /** Flags of Deno besides `-A`. */
  flags?: readonly string[];
  /** The event at which the process is killed. */
  killAt?: (event: RunEvent) => boolean;
}

/** What a training left. */
interface Trained {
  events: RunEvent[];
  /** Everything that the program printed. */
  printed: string;
  code: number;
}

/** Runs `svc train`. */
export async function trainSmall(
  config: string,
  { args = [], env = {}, flags = [], killAt = () => false }: TrainOptions = {},
): Promise<Trained> {
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", ...flags, CLI, "train", config, "--json", ...args],
    ...{ env, stdin: "null", stdout: "piped", stderr: "piped" },
  }).spawn();
  const said = new Response(child.stderr).text(), events: RunEvent[] = [];
  let out = "", rest = "";
  for await (const text of child.stdout.pipeThrough(new TextDecoderStream())) {
    out += text;
    const lines = (rest + text).split("\n");
    rest = lines.pop()!;
    for (const line of lines.filter((line) => line.startsWith("{"))) {
      events.push(JSON.parse(line));
      if (killAt(events.at(-1)!)) child.kill("SIGKILL");
    }
  }
  const printed = out + await said, { code } = await child.status;
  return { events, printed, code };
}
