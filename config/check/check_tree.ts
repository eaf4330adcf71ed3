/** Checks a configuration as plain data, wherever it comes from: a file, or a request. */

import { describeKeys } from "../describe.ts";
import { type Finding, findingsOf, showValue } from "./issues.ts";
import { LIMITS } from "../sections/limits.ts";
import { findNotBuilt } from "./not_built.ts";
import { checkRules } from "./rules.ts";
import { type RunConfig, runConfigSchema } from "../schema.ts";
import { MAX_LISTED_PROBLEMS } from "../text/problems.ts";
import { isPrefix, type TomlTree, valueAt } from "../text/toml_tree.ts";

type Path = (string | number)[];

/** A checked tree. */
export interface CheckedTree {
  /** Null when there is a finding. Paths are as written. */
  config: RunConfig | null;
  /** At most one for a key. */
  findings: Finding[];
}

/** The parts of a tree that are not known. */
export interface UnknownParts {
  /** Keys whose values are not in the tree: rules that read them are left out. */
  unknown?: readonly Path[];
  /** Ids that stand for tables which are not in the tree: whether this build has those is not asked. */
  ids?: readonly Path[];
  /** Whether keys may be missing: only those that are there are checked. */
  is_partial?: boolean;
}

/** Checks a tree against the schema, the rules between keys, and what this build has. */
export function checkTree(
  { tree, floats }: TomlTree,
  { unknown = [], ids = [], is_partial = false }: UnknownParts = {},
): CheckedTree {
  const not_built = findNotBuilt(tree).filter(({ path }) => !ids.some((id) => isPrefix(path, id)));
  const isBelowNotBuilt = (at: Path) => not_built.some((found) => isPrefix(found.path, at));
  const parsed = runConfigSchema.safeParse(tree);
  // No more problems are listed.
  const hints = { left: MAX_LISTED_PROBLEMS };
  const issues = firstOfEach(parsed.error?.issues.flatMap((issue) => findingsOf(issue, tree, hints)) ?? []);
  const floating = floatFindings(tree, floats).filter(({ path }) =>
    !issues.some((issue) => isPrefix(issue.path, path))
  );
  const config = parsed.data ?? repaired(tree);
  const left_out = [...issues.map(({ path }) => path), ...unknown];
  const isLeftOut = (key: string) => {
    const at = key.split(".");
    return left_out.some((path) => overlaps(at, path));
  };
  const broken = config && !is_partial ? checkRules(config, isLeftOut).map(({ finding }) => finding) : [];
  const present = issues.filter(({ code }) => !is_partial || code !== "missing_field");
  const findings: Finding[] = [
    ...not_built.map((found) => ({ ...found, code: "not_built" as const })),
    ...[...present, ...floating, ...broken].filter((finding) => !isBelowNotBuilt(finding.path)),
  ];
  return { config: findings.length > 0 ? null : parsed.data ?? null, findings };
}

/** Whether one of two keys is the other or inside it. In a pattern `*` is any index of a list. */
function overlaps(pattern: readonly string[], path: Path): boolean {
  return pattern.every((part, i) => i >= path.length || part === "*" || part === String(path[i]));
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
