/** A fleet whose runs are processes on a scripted engine. */

import { fileURLToPath } from "node:url";
import { AsyncQueue } from "../../core/async_queue.ts";
import { type Clock, systemClock } from "../../core/clock.ts";
import type { ErrorCode } from "../../core/errors.ts";
import type { Identity } from "../directory/config_identity.ts";
import type { Plan } from "../plan/plan.ts";
import type { RunState } from "../record/run.ts";
import type { RunEvent } from "../record/event.ts";
import { readEvents } from "../record/event_log.ts";
import { Fleet, type FleetOptions } from "./fleet.ts";
import type { FleetChange } from "./run_lifecycle.ts";
import type { ManagedRun } from "./managed_run.ts";
import type { NewRun } from "./new_run.ts";

const PROGRAM = fileURLToPath(new URL("../../tests/scripted_run.ts", import.meta.url));

const POLL_MS = 5;

/** What such a run does. */
export interface ScriptedRun {
  updates?: number;
  /** The folder with a file for each update that may be trained. */
  gate?: string;
  /** The run fails at its start with this message. */
  fatal?: string;
  /** Generations of this many tokens never end by themselves. With a gate they write the file `hangs` in its folder. */
  hang?: number;
  /** Whether the run measures its held-out data; absent: it does. */
  evaluates?: boolean;
  /** How a probe fails: its process ends, its files are not those of the run, or the device refuses memory. */
  probe?: "dies" | "changed" | "full";
  /**
   * The process saves the adapter when this file is there. Before, it answers no more requests but is still `running`,
   * and has written the file with `.waits` behind its name.
   */
  saves?: string;
  /** The process leaves when this file is there. */
  leaves?: string;
  /** What a real configuration would train. */
  identity?: Identity;
  /** The `device` of its configuration; absent: `auto`. */
  device?: "software";
  /** The name of the GPU that it locks; absent: it has a software adapter. */
  gpu?: string;
}

interface TestFleetOptions {
  folder: string;
  slots?: number;
  max_queued?: number;
  clock?: Clock;
  conversations?: string;
  others?: FleetOptions["others"];
  orphan_wait_ms?: number;
}

export class TestFleet {
  readonly fleet: Fleet;
  readonly logged: Record<string, unknown>[];
  readonly changes: FleetChange[] = [];
  /** The same changes for one more reader. */
  readonly relayed = new AsyncQueue<FleetChange>();
  /** How a calibration fails, or the bytes that it measures; null: fixed measurements. */
  calibration: "dies" | "hangs" | ErrorCode | { bytes: Record<string, number> } | null = null;
  /** Called right before a process starts. */
  starting: () => void = () => {};
  #changed: PromiseWithResolvers<void> = Promise.withResolvers();
  readonly #reading: Promise<void>;

  private constructor(fleet: Fleet, logged: Record<string, unknown>[]) {
    this.fleet = fleet;
    this.logged = logged;
    this.#reading = this.#read();
  }

  static async open(
    { folder, slots = 1, max_queued = 0, clock = systemClock, conversations, ...more }: TestFleetOptions,
  ): Promise<TestFleet> {
    const logged: Record<string, unknown>[] = [];
    const svc = (args: readonly string[]) => {
      const { calibration } = opened;
      opened.starting();
      const given = typeof calibration === "string" ? calibration : JSON.stringify(calibration);
      const more = args[0] === "calibrate" && calibration !== null ? ["--calibration", given] : [];
      return [Deno.execPath(), "run", "-A", "--no-check", PROGRAM, ...args, ...more];
    };
    const log = (line: Record<string, unknown>) => void logged.push(line);
    const fleet = await Fleet.open({
      ...{ folder: `${folder}/runs`, slots, max_queued, clock, svc, log, ...more },
      ...(conversations === undefined ? {} : { conversations }),
    });
    const opened: TestFleet = new TestFleet(fleet, logged);
    fleet.startQueued();
    return opened;
  }

  create(scripted: ScriptedRun = {}, more: Partial<NewRun> = {}): Promise<ManagedRun> {
    return this.fleet.create({ ...testRun(scripted), ...more });
  }

  /** Resolves when a run is in a state, now or later. */
  async until(run: ManagedRun, ...states: RunState[]): Promise<void> {
    await this.untilTrue(() => states.includes(run.record.state));
  }

  /**
   * Resolves when a run of a gate is in an update, where it takes no command before the gate opens, and its fleet knows
   * that it is running: until then a cancel kills it.
   */
  async untilTraining(run: ManagedRun, gate: string, update: number): Promise<void> {
    await untilWaiting(gate, update);
    await this.until(run, "running");
  }

  /** Resolves when a condition holds after some change. */
  async untilTrue(condition: () => boolean): Promise<void> {
    while (!condition()) await this.#changed.promise;
  }

  async close(): Promise<void> {
    await this.fleet.close(60_000);
    await this.#reading;
  }

  async #read(): Promise<void> {
    for await (const change of this.fleet.changes) {
      this.changes.push(change);
      this.relayed.push(change);
      this.#changed.resolve();
      this.#changed = Promise.withResolvers();
    }
    this.relayed.close();
  }
}

/** The plan of a run of so many updates, whose files nobody has read. */
export function testPlan(config: unknown, updates: number): Plan {
  const used = { posts: [], peak_bytes: 0, host_peak_bytes: 0 };
  const memory = { ...used, vram_budget_bytes: null, ram_budget_bytes: 2 ** 30 };
  const times = { seconds_per_update: null, eta_seconds: null, calibrated: false };
  return {
    config: config as Plan["config"],
    ...{ sources: {}, memory, levers_applied: [], levers: [], warnings: [] },
    schedule: { tokens_per_update: 0, updates, ...times },
    template_probe: {
      ...{ prefix_stable: true, tool_loop_stable: true, keeps_thinking: null, bos_count: 0 },
      ...{ tool_call_format: "none", tool_call_round_trip: true, turn_end: null, problems: [] },
    },
  };
}

/** A run that trains 3 updates, with a checkpoint after each and held-out data. */
export function testRun(scripted: ScriptedRun = {}): NewRun {
  const { updates = 3, device = "auto" } = scripted;
  const plan = testPlan({ model: { device }, agent: { updates }, checkpoint: {}, evaluation: {} }, updates);
  return {
    ...{ name: "test", notes: "", tags: [], plan, algorithm: "agent_grpo", parent: null, idempotency: null },
    processConfig: () => JSON.stringify(scripted),
  };
}

/** Runs a test with a fleet in a folder of its own. */
export async function withFleet(
  test: (fleet: TestFleet, folder: string) => Promise<void>,
  options: { slots?: number; max_queued?: number } = {},
): Promise<void> {
  const folder = await Deno.realPath(await Deno.makeTempDir());
  const fleet = await TestFleet.open({ folder, ...options });
  try {
    await test(fleet, folder);
  } finally {
    await fleet.close();
    await Deno.remove(folder, { recursive: true });
  }
}

/** The log of a run. */
export function loggedEvents(run: ManagedRun): Promise<RunEvent[]> {
  return Array.fromAsync(readEvents(run.eventsPath));
}

/** Resolves when a run of a gate is in an update. Its fleet may not have read its events yet. */
export function untilWaiting(gate: string, update: number): Promise<void> {
  return untilThere(`${gate}/${update}.waits`);
}

/** Resolves when a generation of a run with this gate hangs. */
export function untilHanging(gate: string): Promise<void> {
  return untilThere(`${gate}/hangs`);
}

/** Resolves when a file is there. */
export async function untilThere(path: string): Promise<void> {
  while (!await Deno.stat(path).then(() => true, () => false)) await systemClock.sleep(POLL_MS);
}

/** Lets the runs of a gate train these updates. */
export async function openGate(gate: string, ...updates: number[]): Promise<void> {
  await Deno.mkdir(gate, { recursive: true });
  for (const update of updates) await Deno.writeTextFile(`${gate}/${update}`, "");
}
