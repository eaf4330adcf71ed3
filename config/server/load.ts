/** Parses and checks the server's TOML file, and reports all of its problems. */

import { dirname, resolve } from "node:path";
import { z } from "zod";
import { ServiceError } from "../../core/errors.ts";
import { reasonOf } from "../../core/system_errors.ts";
import { unwrap } from "../describe.ts";
import {
  CATALOGUE_LISTS,
  CATALOGUE_TABLES,
  type CatalogueList,
  type CatalogueTable,
} from "../check/catalogue_tables.ts";
import { showValue } from "../check/issues.ts";
import { locateKeys } from "../text/locate.ts";
import { nearestName } from "../text/nearest.ts";
import { configError, type ConfigProblem } from "../text/problems.ts";
import { isLoopback, parseBind, type ServerConfig, serverConfigSchema } from "./schema.ts";
import { parseToml, valueAt } from "../text/toml_tree.ts";

type Path = (string | number)[];
type Problem = Omit<ConfigProblem, "file" | "line" | "key"> & { path: Path };

/** The names of every table of the server's file, for "did you mean". */
function namesAt(path: Path): string[] {
  let schema = serverConfigSchema as z.ZodType;
  for (const part of path) {
    const { schema: inner } = unwrap(schema);
    if (inner instanceof z.ZodArray) schema = inner.element as z.ZodType;
    else if (inner instanceof z.ZodObject && Object.hasOwn(inner.shape, part)) {
      schema = inner.shape[part as string] as z.ZodType;
    } else return [];
  }
  const { schema: table } = unwrap(schema);
  return table instanceof z.ZodObject ? Object.keys(table.shape) : [];
}

function problemsOf(issue: z.core.$ZodIssue, tree: unknown): Problem[] {
  const path = issue.path as Path;
  if (issue.code === "unrecognized_keys") {
    return issue.keys.map((key) => {
      const near = nearestName(key, namesAt(path));
      const hint = near === null ? {} : { hint: `did you mean "${[...path, near].join(".")}"?` };
      return { path: [...path, key], code: "unknown_field", message: "is no known key", ...hint };
    });
  }
  const value = valueAt(tree, path);
  // A token must not come into a log, not even a wrong one.
  const shown = path[0] === "auth_token" ? "" : `, not ${showValue(value)}`;
  if (value === undefined) return [{ path, code: "missing_field", message: "is missing" }];
  if (issue.code === "too_small" || issue.code === "too_big") {
    const bound = issue.code === "too_small" ? `at least ${issue.minimum}` : `at most ${issue.maximum}`;
    const what = typeof value === "number" ? bound : "longer";
    return [{ path, code: "out_of_range", message: `must be ${what}${shown}` }];
  }
  const reason = issue.code === "invalid_type" ? `must be of type ${issue.expected}` : issue.message;
  return [{ path, code: "invalid_value", message: `${reason}${shown}` }];
}

function ruleProblems(config: ServerConfig): Problem[] {
  const problems = catalogueProblems(config);
  if (!isLoopback(parseBind(config.bind)!.host) && config.auth_token === undefined) {
    const message = `must be a loopback address without auth_token, not ${showValue(config.bind)}`;
    problems.push({ path: ["bind"], code: "invalid_value", message });
  }
  return problems;
}

/** Ids are unique in a list, and an entry keeps the rules of its list. */
function catalogueProblems(config: ServerConfig): Problem[] {
  return CATALOGUE_LISTS.flatMap((list) => {
    const entries: readonly { id: string }[] = config[list],
      { problems }: CatalogueTable = CATALOGUE_TABLES[list];
    return entries.flatMap((entry, i): Problem[] => {
      const first = entries.findIndex(({ id }) => id === entry.id);
      const message = `is the id of entry ${first + 1} of [[${list}]] too`;
      const twice: Problem = { path: [list, i, "id"], code: "invalid_value", message };
      const broken = problems(entry).map(({ key, missing, ...problem }): Problem => ({
        path: key === null ? [list, i] : [list, i, key],
        code: missing ? "missing_field" : "invalid_value",
        ...problem,
      }));
      return first === i ? broken : [twice, ...broken];
    });
  });
}

/** The catalogue with absolute paths. */
function withAbsolutePaths(
  config: ServerConfig,
  absolute: (relative: string) => string,
): Pick<ServerConfig, CatalogueList> {
  const lists = CATALOGUE_LISTS.map((list) => {
    const { paths }: CatalogueTable = CATALOGUE_TABLES[list];
    const entries: readonly Readonly<Record<string, unknown>>[] = config[list];
    const absolutePaths = (entry: typeof entries[number]) =>
      Object.entries(paths).map(([key, fallback]) => [key, absolute(entry[key] as string ?? fallback)]);
    return [list, entries.map((entry) => ({ ...entry, ...Object.fromEntries(absolutePaths(entry)) }))];
  });
  return Object.fromEntries(lists) as Pick<ServerConfig, CatalogueList>;
}

/**
 * Checks a server configuration text. Relative paths in it resolve against the folder of `path`.
 *
 * @throws {ServiceError} `config_invalid` with all problems as `details.problems`.
 */
export function parseServerConfig(content: string, { path }: { path: string }): ServerConfig {
  const toml = parseToml(content);
  if ("message" in toml) throw configError(path, [{ file: path, key: "", code: "syntax", ...toml }]);
  const parsed = serverConfigSchema.safeParse(toml.tree);
  const problems = parsed.success
    ? ruleProblems(parsed.data)
    : parsed.error.issues.flatMap((issue) => problemsOf(issue, toml.tree));
  if (problems.length > 0) {
    const lines = locateKeys(content);
    throw configError(
      path,
      problems.map(({ path: at, ...problem }) => ({
        file: path,
        line: lines.lineOf(at),
        key: at.join("."),
        ...problem,
      })),
    );
  }
  const config = parsed.data!;
  const absolute = (relative: string) => resolve(dirname(path), relative);
  return {
    ...config,
    ...withAbsolutePaths(config, absolute),
    data_dir: absolute(config.data_dir),
    path_roots: config.path_roots.map(absolute),
  };
}

/**
 * Reads the server's configuration file.
 *
 * @throws {ServiceError} `path_not_found` or `config_invalid`.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 *
 * const folder = await Deno.makeTempDir(), path = `${folder}/server.toml`;
 * await Deno.writeTextFile(path, 'path_roots = ["models"]');
 * const { path_roots, max_concurrent_runs } = await loadServerConfig(path);
 * assert.deepEqual([path_roots, max_concurrent_runs], [[`${folder}/models`], 1]);
 * await Deno.remove(folder, { recursive: true });
 * ```
 */
export async function loadServerConfig(path: string): Promise<ServerConfig> {
  let content: string;
  try {
    content = new TextDecoder("utf-8", { fatal: true }).decode(await Deno.readFile(path));
  } catch (error) {
    const code = error instanceof Deno.errors.NotFound ? "path_not_found" : "config_invalid";
    const reason = error instanceof Deno.errors.NotFound ? "there is no such file" : reasonOf(error);
    throw new ServiceError(code, `Cannot load ${path}: ${reason}`, { path });
  }
  return parseServerConfig(content, { path });
}
