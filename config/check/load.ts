/** Parses and checks a TOML configuration, and reports all of its problems. */

import { dirname, resolve } from "node:path";
import { ServiceError } from "../../core/errors.ts";
import { isJsonObject } from "../../core/json.ts";
import { reasonOf } from "../../core/system_errors.ts";
import { CATALOGUE_TABLES, type CatalogueTable } from "./catalogue_tables.ts";
import { checkTree } from "./check_tree.ts";
import { describeKeys } from "../describe.ts";
import type { Finding } from "./issues.ts";
import { locateKeys } from "../text/locate.ts";
import { mcpConfigProblems } from "./mcp_config.ts";
import { findNotBuilt } from "./not_built.ts";
import { applyOverrides, type Override, overrideAt, readOverrides, shownOverride } from "./overrides.ts";
import { configError, type ConfigProblem, sortProblems } from "../text/problems.ts";
import type { RunConfig } from "../schema.ts";
import { isPrefix, parseToml, type TomlSyntaxError, type TomlTree, valueAt } from "../text/toml_tree.ts";

/** The largest configuration file in bytes. */
export const MAX_CONFIG_BYTES = 1 << 20;

/** The inputs of a configuration. */
export interface ConfigSource {
  /** The file's path as given. */
  path: string;
  /** The file's text. */
  text: string;
  /** Values that replace those of the file. */
  overrides: readonly Override[];
}

/** A checked configuration with its source. */
export interface LoadedConfig extends ConfigSource {
  config: RunConfig;
}

export interface CheckedConfig {
  /** Null when there is a problem. */
  config: RunConfig | null;
  /** Sorted by line. */
  problems: ConfigProblem[];
}

/** The file's values with the overrides applied. */
export function sourceTree({ text, overrides }: ConfigSource): TomlTree | TomlSyntaxError {
  const toml = parseToml(text);
  return "message" in toml ? toml : applyOverrides(toml, overrides);
}

/** The path of a text, and its overrides. */
interface TextOptions {
  path: string;
  overrides?: readonly Override[];
}

/**
 * Checks a configuration text. Paths in it resolve against the folder of `path`; this does not check that they exist.
 */
export function checkRunConfig(text: string, { path, overrides = [] }: TextOptions): CheckedConfig {
  const source = { text, path, overrides };
  const toml = sourceTree(source);
  if ("message" in toml) {
    return { config: null, problems: [{ file: path, key: "", code: "syntax", ...toml }] };
  }
  const { config, findings } = checkTree(toml), all = [...findings, ...idFindings(toml.tree, findings)];
  if (!config || all.length > 0) return { config: null, problems: placeFindings(all, source) };
  return { config: resolveInputPaths(config, path), problems: [] };
}

/** Ids where a file must say everything itself: only a server has a catalogue. */
function idFindings(tree: unknown, findings: readonly Finding[]): Finding[] {
  const tables: readonly CatalogueTable[] = Object.values(CATALOGUE_TABLES);
  return tables.flatMap(({ field, is_list, keys, instead_of_id }): Finding[] => {
    if (instead_of_id === undefined) return [];
    const path = ["agent", field], value = valueAt(tree, path);
    const places = is_list && Array.isArray(value)
      ? value.map((_, i) => [...path, i, "id"])
      : [[...path, ...keys ? ["id"] : []]];
    const message = `is an id, and only a server has a catalogue; ${instead_of_id}`;
    return places.filter((at) => typeof valueAt(tree, at) === "string")
      .filter((at) => !findings.some((known) => isPrefix(known.path, at)))
      .map((at) => ({ path: at, code: "invalid_value", message }));
  });
}

/**
 * Like {@link checkRunConfig}. @throws {ServiceError} `config_invalid` with all problems as `details.problems`.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 *
 * const text = `
 *   [run]
 *   algorithm = "sft"
 *   [model]
 *   path = "model.gguf"
 *   [sft]
 *   data = "train.jsonl"`;
 * const { config } = parseRunConfig(text, { path: "run.toml" });
 * assert.equal(config.lora.rank, 8);
 *
 * const misspelt = text.replace("data", "dta");
 * assert.throws(() => parseRunConfig(misspelt, { path: "run.toml" }), /did you mean "sft.data"/);
 * ```
 */
export function parseRunConfig(text: string, { path }: { path: string }): LoadedConfig {
  const { config, problems } = checkRunConfig(text, { path });
  if (!config) throw configError(path, problems);
  return { config, path, text, overrides: [] };
}

/**
 * Reads and checks a configuration file. Unless `check_paths` is false, the files that it names must exist.
 *
 * @param overrides `key=value` texts, see {@link readOverrides}.
 * @throws {ServiceError} `path_not_found` or `config_invalid` with all problems as `details.problems`.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 *
 * const { config } = await loadRunConfig("examples/tiny_agent_grpo.toml", { overrides: ["lora.rank=4"] });
 * assert.deepEqual([config.run.algorithm, config.lora.rank], ["agent_grpo", 4]);
 * ```
 */
export async function loadRunConfig(
  path: string,
  { check_paths = true, overrides: texts = [] }: { check_paths?: boolean; overrides?: readonly string[] } =
    {},
): Promise<LoadedConfig> {
  const text = await readConfigText(path);
  const { overrides, problems: unread } = readOverrides(texts, path);
  const source = { text, path, overrides };
  const checked = checkRunConfig(text, source);
  const files = check_paths ? [...await pathProblems(source), ...mcpFileProblems(source)] : [];
  const problems = sortProblems([...unread, ...checked.problems, ...files]);
  if (!checked.config || problems.length > 0) throw configError(path, problems);
  return { config: checked.config, ...source };
}

async function readConfigText(path: string): Promise<string> {
  const refuse = (reason: string, code: "path_not_found" | "config_invalid" = "config_invalid") =>
    new ServiceError(code, `Cannot load ${path}: ${reason}`, { path });
  const info = await Deno.stat(path).catch((error: Error) => {
    throw refuse(
      error instanceof Deno.errors.NotFound ? "there is no such file" : reasonOf(error),
      "path_not_found",
    );
  });
  if (!info.isFile) throw refuse("it is not a regular file");
  if (info.size > MAX_CONFIG_BYTES) throw refuse(`it has ${info.size} bytes, more than ${MAX_CONFIG_BYTES}`);
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(await Deno.readFile(path));
  } catch (error) {
    throw refuse(error instanceof TypeError ? "it is not UTF-8" : reasonOf(error));
  }
}

/** Problems with the paths in the file. */
async function pathProblems(source: ConfigSource): Promise<ConfigProblem[]> {
  const toml = sourceTree(source);
  if ("message" in toml) return [];
  const unusable = findNotBuilt(toml.tree).map((found) => found.path);
  const findings: Finding[] = [];
  for (const { key, path: kind } of describeKeys()) {
    const at = key.split(".");
    const value = valueAt(toml.tree, at);
    if (kind !== "input" || typeof value !== "string" || value === "") continue;
    if (unusable.some((prefix) => isPrefix(prefix, at))) continue;
    const file = resolve(dirname(source.path), value);
    const info = await Deno.stat(file).catch((error: unknown) => ({ isFile: false, error }));
    if (info.isFile) continue;
    const message = noFileText(file, "error" in info ? info.error : null);
    findings.push({ path: at, code: "path_not_found", message });
  }
  return placeFindings(findings, source);
}

/** Problems in the file of `agent.mcp_config`, which has the lines of its own. */
function mcpFileProblems(source: ConfigSource): ConfigProblem[] {
  const toml = sourceTree(source);
  if ("message" in toml) return [];
  const agent = valueAt(toml.tree, ["agent"]), at = ["agent", "mcp_config"];
  const is_unusable = findNotBuilt(toml.tree).some(({ path }) => isPrefix(path, at));
  if (is_unusable || !isJsonObject(agent) || typeof agent.mcp_config !== "string") return [];
  const file = resolve(dirname(source.path), agent.mcp_config);
  // That there is no such file is a problem of its path.
  if (!isFile(file)) return [];
  const found = mcpConfigProblems(agent, file);
  if (Array.isArray(found)) return found;
  return placeFindings([{ path: at, code: "invalid_value", message: found.message }], source);
}

function isFile(path: string): boolean {
  try {
    return Deno.statSync(path).isFile;
  } catch {
    return false;
  }
}

/** @param error The error of looking at the path; null when it exists but is not a file. */
function noFileText(file: string, error: unknown): string {
  if (error === null) return `${file} is not a regular file`;
  if (error instanceof Deno.errors.NotFound) return `there is no file ${file}`;
  return `${file} cannot be read: ${reasonOf(error)}`;
}

/** Adds to each finding the line of its key, or the override that caused it. */
export function placeFindings(
  findings: readonly Finding[],
  { text, path, overrides }: ConfigSource,
): ConfigProblem[] {
  const lines = locateKeys(text);
  return sortProblems(findings.map(({ path: at, ...finding }) => {
    const override = overrideAt(at, overrides, lines);
    const place = override ? { line: 0, override: shownOverride(override.text) } : { line: lines.lineOf(at) };
    return { file: path, ...place, key: at.join("."), ...finding };
  }));
}

function resolveInputPaths(config: RunConfig, path: string): RunConfig {
  const copy = structuredClone(config);
  for (const { key, path: kind } of describeKeys()) {
    const parts = key.split(".");
    const table = valueAt(copy, parts.slice(0, -1)) as Record<string, unknown> | undefined;
    const value = valueAt(copy, parts);
    if (kind && table && typeof value === "string") table[parts.at(-1)!] = resolve(dirname(path), value);
  }
  const reward = copy.agent?.reward;
  if (typeof reward === "object") reward.cwd = resolve(dirname(path), reward.cwd ?? ".");
  for (const server of copy.agent?.mcp_servers ?? []) {
    if (server.command) server.cwd = resolve(dirname(path), server.cwd ?? ".");
  }
  return copy;
}
