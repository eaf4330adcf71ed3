/** `svc init`: writes a starter configuration with a comment for every key. */

import { Argument, type Command, Option } from "commander";
import { stringify } from "smol-toml";
import { isJsonObject } from "../core/json.ts";
import { BUILT_ALGORITHMS } from "../config/check/built.ts";
import { ALGORITHM_KEYS, type AlgorithmName, STARTER_ALGORITHM } from "../config/algorithms.ts";
import { type ConfigKey, type ConfigSection, describeConfig, describeKeys } from "../config/describe.ts";
import { ENVIRONMENT_KINDS } from "../config/environments.ts";
import { isNotBuilt } from "../config/check/not_built.ts";
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

/** A hosted model in a starter configuration. */
const HOSTED_MODEL = {
  model: "large-model",
  base_url: "https://api.example.com/v1",
  api_key_env: "EXAMPLE_API_KEY",
};

/** Tables that cannot be empty, and that no run needs: each stands in one line of the section around it. */
const OPTIONAL_TABLES: Readonly<Record<string, Record<string, unknown>>> = {
  "agent.scenario_generation": { ...HOSTED_MODEL, count: 50 },
  "agent.collect_api": HOSTED_MODEL,
  "agent.judge": {
    ...HOSTED_MODEL,
    ...{
      type: "ruler",
      rubric: "Prefer short answers.",
      max_chars: 100_000,
      timeout_secs: 60,
      max_retries: 2,
    },
    ...{ permute: true, cache_path: "judgements.jsonl" },
  },
};

/** Keys of types of environments that are not the starter's: they have no meaning beside its type. */
function keysOfOtherEnvironments(algorithm: AlgorithmName): string[] {
  const type = starterValues(algorithm)["agent.environment.type"];
  const others = Object.entries(ENVIRONMENT_KINDS).filter(([name]) => name !== type);
  return others.flatMap(([, { keys }]) => keys.map((key) => `agent.environment.${key}`));
}

/** Sections and keys that only other algorithms or environments use. */
function keysOfOthers(algorithm: AlgorithmName): string[] {
  const { section, unused, not_in_starter } = ALGORITHM_KEYS[algorithm];
  const sections = Object.values(ALGORITHM_KEYS).map((other) => other.section).filter((other) =>
    other !== section
  );
  return [...sections, ...Object.keys(unused), ...not_in_starter, ...keysOfOtherEnvironments(algorithm)];
}

function isPart({ key, section }: ConfigKey, algorithm: AlgorithmName): boolean {
  if (keysOfOthers(algorithm).some((other) => key === other || key.startsWith(`${other}.`))) return false;
  // A table that is one form of a key stands in the key's example.
  const is_form = describeKeys().some((other) => other.key === section);
  if (Object.hasOwn(OPTIONAL_TABLES, section)) return false;
  return !section.includes("[]") && !section.includes("<") && !is_form && !isNotBuilt(key);
}

function tomlValue(value: unknown): string {
  if (isJsonObject(value)) {
    const pairs = Object.entries(value).map(([key, inner]) => `${key} = ${tomlValue(inner)}`);
    return pairs.length === 0 ? "{}" : `{ ${pairs.join(", ")} }`;
  }
  return stringify({ v: value }).trim().slice("v = ".length);
}

/** A further line about a key. */
function proseOf({ key }: ConfigKey): string[] {
  if (key !== "agent.environment.type") return [];
  return ["# Each type has keys of its own: docs/reference/configuration.md has those of the other types."];
}

function keyLines(key: ConfigKey, algorithm: AlgorithmName): string[] {
  const name = key.key.slice(key.section.length + 1);
  const values = starterValues(algorithm);
  if (Object.hasOwn(values, key.key)) {
    return [`# ${key.description}`, ...proseOf(key), `${name} = ${tomlValue(values[key.key])}`];
  }
  if (key.rule === undefined) return [`# ${key.description}`, `# ${name} = ${tomlValue(key.default)}`];
  const example = key.key === "training.lr" ? ALGORITHM_KEYS[algorithm].learning_rate : key.example;
  assert(example !== undefined, `${key.key} has an example`);
  return [`# ${key.description} Left out: ${key.rule}.`, `# ${name} = ${tomlValue(example)}`];
}

function sectionText({ section, description, keys: all }: ConfigSection, algorithm: AlgorithmName) {
  const keys = all.filter((key) => isPart(key, algorithm));
  if (keys.length === 0) return null;
  const tables = describeConfig().flatMap((table) => tableLines(table, section));
  const lines = keys.flatMap((key) => keyLines(key, algorithm));
  return [`# ${description}`, `[${section}]`, ...lines, ...tables].join("\n");
}

/** The line of a table of {@link OPTIONAL_TABLES} in its section; none for other tables. */
function tableLines(table: ConfigSection, section: string): string[] {
  const name = table.section.slice(section.length + 1), example = OPTIONAL_TABLES[table.section];
  if (!example || table.section !== `${section}.${name}`) return [];
  return [`# ${table.description} Left out: not used.`, `# ${name} = ${tomlValue(example)}`];
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
async function writeStarterConfig(path: string, algorithm: AlgorithmName): Promise<void> {
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
        STARTER_ALGORITHM,
      ),
    )
    .action(async (path: string, options: { algorithm: AlgorithmName }) => {
      await writeStarterConfig(path, options.algorithm);
      const shown = inline(path);
      terminal.line(`wrote ${shown}: set model.path and the files of your data, then \`svc train ${shown}\``);
    });
}
