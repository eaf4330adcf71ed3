/** The types of environments: their keys, rules and programs. A new type has an entry here. */

import { isLeftOut } from "../core/version.ts";
import type { EnvironmentConfig } from "./schema.ts";
import { hasCredentials } from "./sections/fields.ts";
import { valueAt } from "./text/toml_tree.ts";
import { ENVIRONMENT_TYPES, type EnvironmentType } from "./sections/environment.ts";

/** A broken rule at a key of the environment. */
export interface EnvironmentProblem {
  /** Below `[agent.environment]`. */
  key: string;
  message: string;
  missing?: true;
  hint?: string;
}

/** A field of `features` in `GET /v1/capabilities` that is about a type of environments. */
export type EnvironmentFeature = "containers";

/** An entry of {@link ENVIRONMENT_KINDS}. */
export interface EnvironmentKind {
  /** The part that this build lacks for it, as refusals name it; null: it is built. */
  missing_part: string | null;
  /** Keys of `[agent.environment]` that only this type uses. Without the part they are refused too. */
  keys: readonly string[];
  /** Whether it says itself which tools it has, so that no toolset need be named. */
  has_own_tools: boolean;
  /**
   * Programs of the machine, of which an environment of this type needs one. `svc doctor` looks for them;
   * `GET /v1/capabilities` does not. For a type with programs the route gives the reason why this build lacks it, for
   * any other only whether this build has it.
   */
  programs: readonly string[];
  /** The feature in `GET /v1/capabilities` that says whether this build has the type; null: none. */
  feature: EnvironmentFeature | null;
  /** The rule between `type` and `keys` that an environment breaks; null when there is none. */
  problem(environment: EnvironmentConfig): EnvironmentProblem | null;
}

const KINDS = {
  container: {
    missing_part: null,
    keys: ["profile", "image", "runtime", "allow_network", "pool", "limits.cpus", "limits.memory_mb"],
    has_own_tools: false,
    programs: ["podman", "docker"],
    feature: "containers",
    problem: ({ profile, image }) => {
      if (profile === undefined && image === undefined) {
        return { key: "profile", message: 'is missing: "python", "typescript" or "custom"', missing: true };
      }
      if (profile !== "custom" || image !== undefined) return null;
      return { key: "image", message: "is missing: the image of profile custom", missing: true };
    },
  },
  local: {
    missing_part: null,
    keys: ["allow_unsandboxed"],
    has_own_tools: false,
    programs: [],
    feature: null,
    problem: ({ allow_unsandboxed }) =>
      allow_unsandboxed ? null : {
        key: "type",
        message: '"local" runs the tools that the model calls on this machine, without a sandbox',
        hint: "allow it with allow_unsandboxed = true",
      },
  },
  http: {
    missing_part: null,
    keys: ["base_url", "api_key_env"],
    has_own_tools: true,
    programs: [],
    feature: null,
    problem: ({ base_url }) => {
      if (base_url === undefined) {
        return { key: "base_url", message: "is missing: where the server is", missing: true };
      }
      return addressProblem(base_url);
    },
  },
} satisfies Record<EnvironmentType, EnvironmentKind>;

/** What is wrong with the address of an environment server; null: nothing. Routes follow its path. */
function addressProblem(base_url: string): EnvironmentProblem | null {
  const url = URL.parse(base_url), key = "base_url";
  if (!url || !/^([\w.-]+|\[[\da-f:.]+\])$/i.test(url.hostname)) {
    return { key, message: "must be an http or https address" };
  }
  if (hasCredentials(base_url)) {
    const hint = "name the environment variable of a key in api_key_env";
    return { key, message: "must have no user name or password", hint };
  }
  return url.search === "" && url.hash === "" ? null : { key, message: "must have no query and no fragment" };
}

/** All types of environments. */
export const ENVIRONMENT_KINDS: Readonly<Record<EnvironmentType, EnvironmentKind>> = KINDS;

/** The part that this build lacks for a type of environments; null when it has all. */
export function missingPart({ missing_part, feature }: EnvironmentKind): string | null {
  return missing_part ?? (feature !== null && isLeftOut(feature) ? `the part ${feature}` : null);
}

/** The types that this program has, unless a build was made without them. */
export type BuiltEnvironmentType = {
  [T in EnvironmentType]: typeof KINDS[T]["missing_part"] extends null ? T : never;
}[EnvironmentType];

/** The broken rules of an environment that says itself where tools run, in a run's configuration or a catalogue. */
export function environmentProblems(environment: EnvironmentConfig): EnvironmentProblem[] {
  const { type } = environment;
  if (type === undefined) {
    const [last, ...others] = ENVIRONMENT_TYPES.map((name) => JSON.stringify(name)).reverse();
    return [{ key: "type", message: `is missing: ${others.reverse().join(", ")} or ${last}`, missing: true }];
  }
  const problem = ENVIRONMENT_KINDS[type].problem(environment);
  return [...problem ? [problem] : [], ...meaninglessKeys(environment, type)];
}

/** Keys of types whose tools run in a sandbox, and not on a server that has its own. */
const SANDBOX_KEYS = ["protect", "tools.default", "scenario_toolsets", "toolsets"];

/** Keys that are given and mean nothing for the type. Those of a part that this build lacks are refused without it. */
function meaninglessKeys(environment: EnvironmentConfig, type: EnvironmentType): EnvironmentProblem[] {
  const { has_own_tools } = ENVIRONMENT_KINDS[type];
  const others = ENVIRONMENT_TYPES.filter((name) =>
    name !== type && missingPart(ENVIRONMENT_KINDS[name]) === null
  );
  return [
    ...others.flatMap((name) =>
      ENVIRONMENT_KINDS[name].keys.map((key) => ({ key, hint: `remove it, or set type = "${name}"` }))
    ),
    ...has_own_tools
      ? SANDBOX_KEYS.map((key) => ({
        key,
        hint: "remove it: the server has its own tools and grades by itself",
      }))
      : [],
  ].filter(({ key }) => isGiven(valueAt(environment, key.split(".")))).map(({ key, hint }) => ({
    ...{ key, message: `has no meaning with type "${type}"`, hint },
  }));
}

/** Whether a value is more than a default that does nothing. */
function isGiven(value: unknown): boolean {
  if (value === undefined || value === false) return false;
  return value === null || typeof value !== "object" || Object.keys(value).length > 0;
}
