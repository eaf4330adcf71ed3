/** Parses and checks a TOML configuration, and reports all of its problems. */

import { dirname, resolve } from "node:path";
import { ServiceError } from "../core/errors.ts";
import { reasonOf } from "../core/system_errors.ts";
import { describeKeys } from "./describe.ts";
import { type Finding, findingsOf, showValue } from "./issues.ts";
import { LIMITS } from "./limits.ts";
import { locateKeys } from "./locate.ts";
import { findNotBuilt } from "./not_built.ts";
import { applyOverrides, type Override, overrideAt, readOverrides } from "./overrides.ts";
import { configError, type ConfigProblem, sortProblems } from "./problems.ts";
import { checkRules } from "./rules.ts";
import { type RunConfig, runConfigSchema } from "./schema.ts";
import { isPrefix, parseToml, type TomlSyntaxError, type TomlTree, valueAt } from "./toml_tree.ts";

/** The largest configuration file in bytes. */
export const MAX_CONFIG_BYTES = 1 << 20;

type Path = (string | number)[];

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
  const { tree, floats } = toml;
  const not_built = findNotBuilt(tree);
  const isBelowNotBuilt = (at: Path) => not_built.some((found) => isPrefix(found.path, at));
  const parsed = runConfigSchema.safeParse(tree);
  const issues = firstOfEach(parsed.error?.issues.flatMap((issue) => findingsOf(issue, tree)) ?? []);
  const floating = floatFindings(tree, floats).filter(({ path }) =>
    !issues.some((issue) => isPrefix(issue.path, path))
  );
  const config = parsed.data ?? repaired(tree);
  const isWrong = (key: string) =>
    issues.some(({ path }) => isPrefix(path, key.split(".")) || isPrefix(key.split("."), path));
  const broken = config ? checkRules(config, isWrong) : [];
  const findings: Finding[] = [
    ...not_built.map((found) => ({ ...found, code: "not_built" as const })),
    ...[...issues, ...floating, ...broken].filter((finding) => !isBelowNotBuilt(finding.path)),
  ];
  if (findings.length > 0) return { config: null, problems: placeFindings(findings, source) };
  return { config: resolveInputPaths(parsed.data!, path), problems: [] };
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
  const paths = check_paths ? await pathProblems(source) : [];
  const problems = sortProblems([...unread, ...checked.problems, ...paths]);
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
    const override = overrideAt(at, overrides, lines)?.text;
    const place = override === undefined ? { line: lines.lineOf(at) } : { line: 0, override };
    return { file: path, ...place, key: at.join("."), ...finding };
  }));
}

/** Keeps one finding for each key: a number can violate two bounds at once. */
function firstOfEach(findings: readonly Finding[]): Finding[] {
  const seen = new Set<string>();
  return findings.filter(({ path }) => {
    const key = JSON.stringify(path);
    return !seen.has(key) && seen.add(key);
  });
}

/** Integer keys that were written as floats. The schema alone would accept `8.0` for 8. */
function floatFindings(tree: unknown, floats: ReadonlySet<string>): Finding[] {
  return describeKeys().flatMap(({ key, type }) => {
    const path = key.split(".");
    const value = valueAt(tree, path);
    if (!type.startsWith("integer") || !floats.has(JSON.stringify(path)) || !Number.isInteger(value)) {
      return [];
    }
    const message = `must be an integer: write ${showValue(value)}, without a fraction`;
    return [{ path, code: "invalid_value" as const, message }];
  });
}

const MAX_REPAIRS = 8;

/**
 * A configuration on which the rules can still be checked: invalid values are removed and missing ones get
 * placeholders. Null when that is not possible.
 */
function repaired(tree: Record<string, unknown>): RunConfig | null {
  const copy = structuredClone(tree);
  const keys = new Map(describeKeys().map((key) => [key.key, key]));
  for (let round = 0; round < MAX_REPAIRS; round++) {
    const parsed = runConfigSchema.safeParse(copy);
    if (parsed.success) return parsed.data;
    for (const issue of parsed.error.issues) {
      const path = issue.path as Path;
      const parent = valueAt(copy, path.slice(0, -1)) as Record<string | number, unknown> | undefined;
      const last = path.at(-1);
      if (issue.code === "unrecognized_keys") {
        const table = valueAt(copy, path) as Record<string, unknown>;
        for (const key of issue.keys) delete table[key];
      } else if (parent === undefined || last === undefined) return null;
      else if (Array.isArray(parent)) parent.splice(Number(last), 1);
      else if (parent[last] !== undefined) delete parent[last];
      else parent[last] = placeholder(path.join("."), keys.get(path.join("."))?.type);
    }
  }
  return null;
}

function placeholder(key: string, type: string | undefined): unknown {
  if (type === undefined) return {};
  if (Object.hasOwn(LIMITS, key)) return LIMITS[key as keyof typeof LIMITS].max;
  return type.startsWith('"') ? JSON.parse(type.split(" or ")[0]!) : "?";
}

function resolveInputPaths(config: RunConfig, path: string): RunConfig {
  const copy = structuredClone(config);
  for (const { key, path: kind } of describeKeys()) {
    const parts = key.split(".");
    const table = valueAt(copy, parts.slice(0, -1)) as Record<string, unknown> | undefined;
    const value = valueAt(copy, parts);
    if (kind && table && typeof value === "string") table[parts.at(-1)!] = resolve(dirname(path), value);
  }
  return copy;
}
