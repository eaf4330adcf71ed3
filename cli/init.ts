/** `svc init`: writes a starter configuration with a comment for every key. */

import { Argument, type Command, Option } from "commander";
import { stringify } from "smol-toml";
import { BUILT_ALGORITHMS } from "../config/check/built.ts";
import { ALGORITHM_KEYS } from "../config/algorithms.ts";
import { DEFAULT_CHECKPOINT_EVERY, DEFAULT_CLIPS, DEFAULT_CTX_CAP } from "../config/check/derive.ts";
import { type ConfigKey, type ConfigSection, describeConfig, describeKeys } from "../config/describe.ts";
import { isNotBuilt } from "../config/check/not_built.ts";
import type { AlgorithmName } from "../config/sections/run.ts";
import { assert, ServiceError } from "../core/errors.ts";
import { isPresent, writeFileAtomic } from "../core/files.ts";
import { inline } from "../core/text.ts";
import type { CliContext } from "./context.ts";

/** Values that a beginner must set, because they have no default. */
function starterValues(algorithm: AlgorithmName): Record<string, unknown> {
  return {
    "run.algorithm": algorithm,
    "model.path": "model.gguf",
    "evaluation.data": "heldout.jsonl",
    "evaluation.every_updates": 5,
    ...ALGORITHM_KEYS[algorithm].starter,
  };
}

/** Sections and keys that only other algorithms use. */
function keysOfOthers(algorithm: AlgorithmName): string[] {
  const { section, unused, not_in_starter } = ALGORITHM_KEYS[algorithm];
  const sections = Object.values(ALGORITHM_KEYS).map((other) => other.section).filter((other) =>
    other !== section
  );
  return [...sections, ...Object.keys(unused), ...not_in_starter];
}

/** Example values for keys that are otherwise derived by a rule. */
const EXAMPLES: Record<string, unknown> = {
  "run.name": "my_run",
  "run.directory": "runs/my_run",
  "model.chat_template": "template.jinja",
  "output.path": "adapter.gguf",
  "output.peft_dir": "adapter_peft",
  "lora.seed": 42,
  "lora.init_adapter": "start.gguf",
  "training.ctx": DEFAULT_CTX_CAP,
  "training.epochs": 3,
  "training.updates": 1000,
  "training.max_minutes": 60,
  "training.batch_tokens": 4 * DEFAULT_CTX_CAP,
  "training.micro_batch_tokens": 2 * DEFAULT_CTX_CAP,
  "training.loss_chunk_rows": 512,
  "training.gradient_checkpointing": false,
  "preference.beta": 0.1,
  "agent.max_trajectory_tokens": DEFAULT_CTX_CAP,
  "agent.system_suffix": " Be brief.",
  "agent.concurrent_rollouts": 32,
  "agent.clip_low": DEFAULT_CLIPS.token.low,
  "agent.clip_high": DEFAULT_CLIPS.token.high,
  "agent.overlong_penalty": 0,
  "agent.reward": { command: ["node", "grade.js"], timeout_secs: 60, cwd: "." },
  "agent.environment.protect": ["tests/**"],
  "agent.environment.tools.default": "files",
  "evaluation.max_examples": 100,
  "evaluation.temperature": 1,
  "evaluation.seed": 42,
  "evaluation.patience": 3,
  "evaluation.min_delta": 0.01,
  "checkpoint.directory": "checkpoints",
  "checkpoint.every_updates": DEFAULT_CHECKPOINT_EVERY,
  "observe.directory": "trajectories",
  "observe.every": 1,
  "metrics.csv": "metrics.csv",
};

function isPart({ key, section }: ConfigKey, algorithm: AlgorithmName): boolean {
  if (keysOfOthers(algorithm).some((other) => key === other || key.startsWith(`${other}.`))) return false;
  // A table that is one form of a key stands in the key's example.
  const is_form = describeKeys().some((other) => other.key === section);
  return !section.includes("[]") && !section.includes("<") && !is_form && !isNotBuilt(key);
}

function tomlValue(value: unknown): string {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) {
    const pairs = Object.entries(value).map(([key, inner]) => `${key} = ${tomlValue(inner)}`);
    return pairs.length === 0 ? "{}" : `{ ${pairs.join(", ")} }`;
  }
  return stringify({ v: value }).trim().slice("v = ".length);
}

function keyLines(key: ConfigKey, algorithm: AlgorithmName): string[] {
  const name = key.key.slice(key.section.length + 1);
  const values = starterValues(algorithm);
  if (Object.hasOwn(values, key.key)) {
    return [`# ${key.description}`, `${name} = ${tomlValue(values[key.key])}`];
  }
  if (key.rule === undefined) return [`# ${key.description}`, `# ${name} = ${tomlValue(key.default)}`];
  const examples: Record<string, unknown> = {
    ...EXAMPLES,
    "training.lr": ALGORITHM_KEYS[algorithm].learning_rate,
  };
  assert(Object.hasOwn(examples, key.key), `${key.key} has an example`);
  return [`# ${key.description} Left out: ${key.rule}.`, `# ${name} = ${tomlValue(examples[key.key])}`];
}

function sectionText({ section, description, keys: all }: ConfigSection, algorithm: AlgorithmName) {
  const keys = all.filter((key) => isPart(key, algorithm));
  if (keys.length === 0) return null;
  return [`# ${description}`, `[${section}]`, ...keys.flatMap((key) => keyLines(key, algorithm))].join("\n");
}

/** A configuration that loads as soon as its files exist. */
export function starterConfig(algorithm: AlgorithmName): string {
  const sections = describeConfig().map((section) => sectionText(section, algorithm));
  const introduction = `# A run of svc: svc train <this file>
# A line "# key = value" is valid without its "# ". It shows what holds when the key is left out, or, where the line
# above says how the value is found then, an example. Paths resolve against this file's folder.`;
  return [introduction, ...sections.filter((text) => text !== null)].join("\n\n") + "\n";
}

/** Writes the configuration. @throws {ServiceError} `already_exists`. */
export async function writeStarterConfig(path: string, algorithm: AlgorithmName): Promise<void> {
  const exists = await isPresent(path);
  if (exists) {
    throw new ServiceError("already_exists", `Cannot write ${path}: it exists; name another file`, { path });
  }
  await writeFileAtomic(path, starterConfig(algorithm));
}

/** Adds the command. */
export function addInitCommand(program: Command, { terminal }: CliContext): void {
  program.command("init").description("write a commented starter configuration")
    .addArgument(new Argument("[file]", "where").default("run.toml"))
    .addOption(
      new Option("--algorithm <name>", "the algorithm of the run").choices(BUILT_ALGORITHMS).default(
        "agent_grpo",
      ),
    )
    .action(async (path: string, options: { algorithm: AlgorithmName }) => {
      await writeStarterConfig(path, options.algorithm);
      const shown = inline(path);
      terminal.line(`wrote ${shown}: set model.path and the files of your data, then \`svc train ${shown}\``);
    });
}
