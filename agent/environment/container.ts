/** Environments in containers: which engine and image, and what their attempts share. */

import type { EnvironmentConfig } from "../../config/schema.ts";
import { CONTAINER_DEFAULTS } from "../../config/sections/defaults.ts";
import type { Clock } from "../../core/clock.ts";
import type { Scenario } from "../../data/scenario.ts";
import type { ToolsetChoice } from "../tools/toolsets.ts";
import { probeImage, RunningContainer } from "./container/container.ts";
import { ContainerEnvironment } from "./container/container_environment.ts";
import { becomeOwner, type Owner, PLACE_LABEL, removeOrphans } from "./container/owner.ts";
import { ContainerPool } from "./container/pool.ts";
import type { ContainerOptions } from "./container/run_arguments.ts";
import { writeProfile } from "./container/seccomp.ts";
import { type ContainerEngine, engineText, findEngine } from "./container_engine.ts";
import { imageOf, requireImage } from "./container_image.ts";
import type { EnvironmentFactory } from "./environment.ts";
import { toolsetFactory } from "./toolset_factory.ts";
import { UntouchedWorkspaces } from "./verification.ts";

/** The folder with the files that this user's living processes lock. */
export const ownersFolder = (): string => `/tmp/svc-containers-${Deno.uid() ?? "user"}`;

/** `[agent.environment]`, a clock, and the tools. */
export interface ContainerEnvironmentOptions {
  section: EnvironmentConfig;
  tools: ToolsetChoice;
  /** The default of `pool.max_live`. */
  concurrent_rollouts: number;
  /** The clock of the limits of commands. */
  clock: Clock;
  /** Receives which engine runs the containers, for people. */
  notify?: (message: string) => void;
  /** The run, as a label of its containers. */
  run?: string;
  /** Default: {@link ownersFolder}. */
  owners_folder?: string;
  /** The programs of engines, in the order in which they are tried. */
  programs?: readonly string[];
}

/**
 * Environments of `type = "container"`. The engine is looked for when the first attempt opens.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 * import { systemClock } from "../../core/clock.ts";
 * import { environmentSchema } from "../../config/sections/environment.ts";
 *
 * const environments = containerEnvironments({
 *   section: environmentSchema.parse({ type: "container", profile: "python" }),
 *   tools: { tools: { default: "files" }, scenario_toolsets: [] },
 *   concurrent_rollouts: 8,
 *   clock: systemClock,
 *   programs: ["no-such-engine"],
 * });
 * await assert.rejects(environments.check!(new AbortController().signal), /no-such-engine is not installed/);
 * await environments.close();
 * ```
 */
export function containerEnvironments(options: ContainerEnvironmentOptions): EnvironmentFactory {
  const { section, tools, clock } = options;
  let opening: Promise<Opened> | null = null;
  const opened = () =>
    opening ??= openPool(options).catch((error) => {
      opening = null;
      throw error;
    });
  const open = async (
    scenario: Scenario,
    signal: AbortSignal,
    first: boolean,
  ): Promise<ContainerEnvironment> => {
    const { pool, folder } = await opened();
    const own = { scenario, section, tools, clock, pool, folder, untouched, first };
    return await ContainerEnvironment.open({ ...own, signal });
  };
  // An attempt that has ended goes before those that have not begun.
  const untouched: UntouchedWorkspaces = new UntouchedWorkspaces((scenario, signal) =>
    open(scenario, signal, true)
  );
  return {
    call_timeout_ms: section.limits.exec_timeout_secs * 1000 + CALL_EXTRA_MS,
    ...toolsetFactory(tools),
    check: (signal) => checkEngine(options, signal),
    open: (scenario, { signal }) => open(scenario, signal, false),
    async close() {
      await untouched.close();
      const left = await opening?.catch(() => null);
      await left?.pool.close();
      await left?.owner.leave();
      opening = null;
    },
  };
}

/** A tool's limit is that of its command; the container ends a call in this time after it. */
const CALL_EXTRA_MS = 5000;

/** A notice on containers whose kernel hides no process from others of its user. */
const EXPOSED_TEXT =
  "programs in these containers can read the memory of the process that reports how commands end: " +
  "an attempt could forge its verification";

interface Opened {
  pool: ContainerPool;
  owner: Owner;
  /** The owner's folder, also for copies of workspaces. */
  folder: string;
}

async function checkEngine(options: ContainerEnvironmentOptions, signal: AbortSignal): Promise<void> {
  const { programs } = options;
  const engine = await findEngine({ ...(programs && { programs }), signal });
  const owner = await becomeOwner(options.owners_folder ?? ownersFolder());
  try {
    // So that a container that a killed process leaves is found.
    const container = containerOptions(options, { engine, labels: labelsOf(options, owner) });
    await requireImage(engine, container.image, { signal });
    await probeImage(container, `${owner.prefix}probe`, signal);
  } finally {
    await owner.leave();
  }
}

function labelsOf({ run = "none" }: ContainerEnvironmentOptions, { place }: Owner): Record<string, string> {
  return { "svc.run": run, [PLACE_LABEL]: place };
}

async function openPool(options: ContainerEnvironmentOptions): Promise<Opened> {
  const { section, concurrent_rollouts, owners_folder: folder = ownersFolder(), programs } = options;
  const engine = await findEngine(programs && { programs });
  const owner = await becomeOwner(folder);
  try {
    await removeOrphans(engine, { folder, place: owner.place });
    const { seccomp_profile: theirs } = engine, ours = owner.profile_path;
    const is_strict = theirs !== null && await writeProfile(theirs, ours);
    const made = { engine, labels: labelsOf(options, owner), ...(is_strict && { seccomp_profile: ours }) };
    const container = containerOptions(options, made);
    await requireImage(engine, container.image, {});
    let count = 0, is_exposed = false;
    const pool = new ContainerPool({
      max_live: section.pool.max_live ?? concurrent_rollouts,
      reuse: section.pool.reuse ?? "never",
      async start(signal) {
        const started = await RunningContainer.start(container, `${owner.prefix}${++count}`, signal);
        if (started.is_exposed && !is_exposed) options.notify?.(EXPOSED_TEXT);
        is_exposed ||= started.is_exposed;
        return started;
      },
    });
    options.notify?.(containersText(engine, section));
    return { pool, owner, folder };
  } catch (error) {
    await owner.leave();
    throw error;
  }
}

/** Where programs of container environments run, for people. */
export function containersText(
  engine: ContainerEngine,
  { runtime }: Pick<EnvironmentConfig, "runtime">,
): string {
  const { runtimes: [first] } = engine, used = runtime ?? first;
  return 'tools and commands of environments of type "container" run in containers of ' +
    engineText({ ...engine, runtimes: used === undefined ? [] : [used] });
}

function containerOptions(
  { section }: ContainerEnvironmentOptions,
  made: Pick<ContainerOptions, "engine" | "labels" | "seccomp_profile">,
): ContainerOptions {
  const { cpus = CONTAINER_DEFAULTS.cpus, memory_mb = CONTAINER_DEFAULTS.memory_mb } = section.limits;
  return {
    ...made,
    image: imageOf(section),
    runtime: section.runtime,
    allow_network: section.allow_network ?? false,
    limits: { cpus, memory_mb },
  };
}
