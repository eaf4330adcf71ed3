/** Keys and values of the specification that this build does not have. */

import { isLeftOut } from "../../core/version.ts";
import { algorithmKeys, ALGORITHMS } from "../algorithms.ts";
import { ENVIRONMENT_KINDS, missingPart } from "../environments.ts";
import { valueAt } from "../text/toml_tree.ts";

export interface NotBuilt {
  /** Dotted; `*` matches any name or number. */
  key: string;
  /** Completes "<part> is not in this build". */
  part: string;
  /** Only this value is not built. Absent: the entire key. */
  value?: string | boolean;
  /** Only values for which this is true are not built. */
  when?: (value: unknown, algorithm: unknown) => boolean;
}

const isFixed = (algorithm: unknown, key: string) =>
  ALGORITHMS.some((name) => name === algorithm && Object.hasOwn(algorithmKeys(name).fixed, key));
const isAboveZero = (value: unknown) => typeof value === "number" && value > 0;
const isFilled = (value: unknown) =>
  value === null || typeof value !== "object" || Object.keys(value).length > 0;
const isBelowOne = (value: unknown) => typeof value === "number" && value < 1;

const ENVIRONMENT_PARTS = Object.entries(ENVIRONMENT_KINDS).flatMap(([type, kind]) => {
  const { keys } = kind, part = missingPart(kind);
  return part === null ? [] : [
    { key: "agent.environment.type", value: type, part },
    ...keys.map((key) => ({ key: `agent.environment.${key}`, part, when: isFilled })),
  ];
});
/** What a build without the part refuses. */
const MCP_PARTS: readonly NotBuilt[] = [
  { key: "agent.mcp_servers", part: "the MCP client (mcp)", when: isFilled },
  { key: "agent.mcp_config", part: "the MCP client (mcp)" },
];

/** All keys and values of the specification without an implementation in this build. */
export const NOT_BUILT: readonly NotBuilt[] = [
  {
    key: "lora.dropout",
    part: "dropout",
    // Where it must be 0 anyway, that is the better reason.
    when: (value, algorithm) => isAboveZero(value) && !isFixed(algorithm, "lora.dropout"),
  },
  { key: "training.offload_optimizer", value: true, part: "the optimiser in the host's memory" },
  { key: "training.max_gpu_duty_cycle", part: "the duty cycle", when: isBelowOne },
  ...isLeftOut("mcp") ? MCP_PARTS : [],
  { key: "agent.overlong_penalty", part: "the penalty for long trajectories", when: isAboveZero },
  { key: "agent.dynamic_sampling", part: "dynamic sampling" },
  { key: "agent.sampler_correction", value: "truncated", part: "truncated importance sampling" },
  ...ENVIRONMENT_PARTS,
  { key: "agent.environment.id", part: "the operator's catalogue" },
  { key: "metrics.tensorboard_dir", part: "the TensorBoard writer" },
];

/** The entries about a key of `describeKeys`: about the key itself or a table that contains it. */
export function notBuiltEntries(key: string): NotBuilt[] {
  const name = key.replaceAll("[]", "");
  return NOT_BUILT.filter((entry) => {
    const prefix = entry.key.replace(/\.\*$/, "");
    return name === prefix || name.startsWith(`${prefix}.`);
  });
}

/** Whether this build lacks a key, not only some of its values. */
export function isNotBuilt(key: string): boolean {
  return notBuiltEntries(key).some(lacksKey);
}

/** Whether an entry is about a key, whatever its value; an empty table counts as an absent one. */
const lacksKey = ({ value, when }: NotBuilt) => value === undefined && (!when || when === isFilled);

/** The part that a value of a key needs and this build lacks; null when it lacks nothing. */
export function notBuiltPart(key: string, value: string): string | null {
  return NOT_BUILT.find((entry) => entry.key === key && entry.value === value)?.part ?? null;
}

export interface NotBuiltProblem {
  path: (string | number)[];
  message: string;
}

/** Every use of {@link NOT_BUILT} in a parsed configuration. */
export function findNotBuilt(tree: unknown): NotBuiltProblem[] {
  const algorithm = valueAt(tree, ["run", "algorithm"]);
  return NOT_BUILT.flatMap((entry) =>
    pathsOf(tree, entry.key.split(".")).flatMap((path) => {
      const value = valueAt(tree, path);
      if (entry.value !== undefined && value !== entry.value) return [];
      if (entry.when && !entry.when(value, algorithm)) return [];
      return [{
        path,
        message: `Cannot use ${useText(path, entry, value)}: ${entry.part} is not in this build`,
      }];
    })
  );
}

function useText(path: readonly (string | number)[], entry: NotBuilt, value: unknown): string {
  const key = path.join(".");
  const is_any_value = lacksKey(entry) || typeof value === "object";
  return is_any_value ? key : `${key} = ${JSON.stringify(value)}`;
}

/** The paths that exist in the tree and match the pattern. */
function pathsOf(tree: unknown, pattern: readonly string[]): (string | number)[][] {
  let found: (string | number)[][] = [[]];
  for (const part of pattern) {
    found = found.flatMap((path) => {
      const value = valueAt(tree, path);
      if (value === null || typeof value !== "object") return [];
      if (part === "*") {
        return Object.keys(value).map((name) => [...path, Array.isArray(value) ? Number(name) : name]);
      }
      return Object.hasOwn(value, part) ? [[...path, part]] : [];
    });
  }
  return found;
}
