/** `svc init`: a configuration to begin with, every key commented. */

import { Argument, type Command, Option } from "commander";
import { stringify } from "smol-toml";
import { type ConfigKey, type ConfigSection, describeConfig } from "../config/describe.ts";
import { isNotBuilt } from "../config/not_built.ts";
import { ServiceError } from "../core/errors.ts";
import { writeFileAtomic } from "../core/files.ts";
import { inline } from "../core/text.ts";
import type { CliContext } from "./context.ts";

const STARTER_ALGORITHMS = ["agent_grpo", "sft"] as const;
export type StarterAlgorithm = typeof STARTER_ALGORITHMS[number];

/** Values that a beginner must set or sees set, because nothing stands in for them. */
function starterValues(algorithm: StarterAlgorithm): Record<string, unknown> {
  const common = { "run.algorithm": algorithm, "model.path": "model.gguf" };
  if (algorithm === "sft") return { ...common, "sft.data": "traces.jsonl" };
  return {
    ...common,
    "agent.scenarios": "scenarios.jsonl",
    "agent.updates": 20,
    "agent.environment.type": "local",
    "agent.environment.allow_unsandboxed": true,
    "agent.environment.scenario_toolsets": ["files"],
    "evaluation.data": "heldout.jsonl",
  };
}

/** Sections that the other algorithm alone uses. */
const OTHERS: Record<StarterAlgorithm, string[]> = {
  agent_grpo: ["sft"],
  sft: ["agent", "evaluation", "observe"],
};

/** Sections that are on when they stand in the file. */
const SWITCHED_ON: Record<StarterAlgorithm, string[]> = {
  agent_grpo: ["checkpoint", "observe"],
  sft: ["checkpoint"],
};

function isPart(
  section: string,
  { key, algorithm }: { key?: ConfigKey; algorithm: StarterAlgorithm },
): boolean {
  if (OTHERS[algorithm].some((other) => section === other || section.startsWith(`${other}.`))) return false;
  return !section.includes("[]") && !section.includes("<") && !(key && isNotBuilt(key.key));
}

function tomlValue(value: unknown): string {
  return stringify({ v: value }).trim().slice("v = ".length);
}

function keyLines(key: ConfigKey, values: Record<string, unknown>): string[] {
  const name = key.key.slice(key.section.length + 1);
  if (Object.hasOwn(values, key.key)) {
    return [`# ${key.description}`, `${name} = ${tomlValue(values[key.key])}`];
  }
  if (key.rule !== undefined) return [`# ${key.description}`, `# ${name}: ${key.rule}`];
  const value = JSON.stringify(key.default) === "{}" ? "{}" : tomlValue(key.default);
  return [`# ${key.description}`, `# ${name} = ${value}`];
}

function sectionText(section: ConfigSection, algorithm: StarterAlgorithm): string | null {
  const values = starterValues(algorithm);
  const keys = section.keys.filter((key) => isPart(section.section, { key, algorithm }));
  const required = keys.filter((key) => key.required && !Object.hasOwn(values, key.key));
  if (keys.length === 0 || required.length > 0) return null;
  const is_on = SWITCHED_ON[algorithm].includes(section.section) ||
    keys.some((key) => Object.hasOwn(values, key.key));
  const header = is_on ? `[${section.section}]` : `# [${section.section}]`;
  return [`# ${section.description}`, header, ...keys.flatMap((key) => keyLines(key, values))].join("\n");
}

/** A configuration that loads as soon as the files that it names are there. */
export function starterConfig(algorithm: StarterAlgorithm): string {
  const sections = describeConfig().map((section) => sectionText(section, algorithm));
  const introduction = `# A run of svc: svc train <this file>
# Lines that begin with '#' show what holds without them. Paths resolve against this file's folder.`;
  return [introduction, ...sections.filter((text) => text !== null)].join("\n\n") + "\n";
}

/** Writes the configuration. @throws {ServiceError} `already_exists`. */
export async function writeStarterConfig(path: string, algorithm: StarterAlgorithm): Promise<void> {
  const exists = await Deno.lstat(path).then(() => true, () => false);
  if (exists) {
    throw new ServiceError("already_exists", `Cannot write ${path}: it exists; name another file`, { path });
  }
  await writeFileAtomic(path, starterConfig(algorithm));
}

/** Adds the command. */
export function addInitCommand(program: Command, { terminal }: CliContext): void {
  program.command("init").description("write a commented configuration to begin with")
    .addArgument(new Argument("[file]", "where").default("run.toml"))
    .addOption(
      new Option("--algorithm <name>", "what the run is to do").choices(STARTER_ALGORITHMS).default(
        "agent_grpo",
      ),
    )
    .action(async (path: string, options: { algorithm: StarterAlgorithm }) => {
      await writeStarterConfig(path, options.algorithm);
      const shown = inline(path);
      terminal.line(`wrote ${shown}: set model.path and the files of your data, then \`svc train ${shown}\``);
    });
}
