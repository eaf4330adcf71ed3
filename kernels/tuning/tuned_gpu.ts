/** Gives a device its table of layouts: measured once, then read from a file. */

import { createHash } from "node:crypto";
import { type Clock, systemClock } from "../../core/clock.ts";
import { ServiceError } from "../../core/errors.ts";
import { makeDeviceFolder } from "../../core/device_lock.ts";
import { writeFileAtomic } from "../../core/files.ts";
import { isJsonObject, parseJson } from "../../core/json.ts";
import { VERSION_TEXT } from "../../core/version.ts";
import type { DeviceFacts } from "../../core/device.ts";
import type { Gpu } from "../device.ts";
import type { LayoutChoice, LayoutTable } from "../layout_table.ts";
import {
  deviceClasses,
  deviceMeter,
  layoutChoices,
  type LayoutMeter,
  rightChoices,
  tuneLayouts,
} from "./tune_layouts.ts";

/** The most bytes of a file that are read. */
const MAX_BYTES = 1 << 16;

/** Changes with what the names of classes or the numbers of layouts mean, so that tables of another form are not read. */
const TABLE_FORM = 2;

/**
 * What a table was measured for; another adapter or program measures its own, and so do other features and another driver
 * where it is known. Through Deno's WebGPU, which tells none, a table outlives an update of the driver.
 */
function tuningKey({ name, vendor, webgpu, backend, driver, software, features }: DeviceFacts): string {
  const device = [name, vendor, webgpu, backend, driver, software, features];
  return JSON.stringify([TABLE_FORM, VERSION_TEXT, ...device]);
}

/** The file of a device's table. */
export function tuningPath(folder: string, facts: DeviceFacts): string {
  const hash = createHash("sha256").update(tuningKey(facts)).digest("hex").slice(0, 16);
  return `${folder}/layouts-${hash}.json`;
}

/** A stored table; null when there is none, or none that this program wrote for the device. */
export async function readTuning(
  folder: string,
  gpu: Pick<Gpu, "facts" | "subgroup_size" | "wrong_layouts" | "wrong_segments">,
): Promise<LayoutTable | null> {
  try {
    using file = await Deno.open(tuningPath(folder, gpu.facts));
    const bytes = new Uint8Array(MAX_BYTES), count = await file.read(bytes) ?? 0;
    const stored = parseJson(new TextDecoder().decode(bytes.subarray(0, count)));
    if (!isJsonObject(stored) || stored.key !== tuningKey(gpu.facts)) return null;
    return isJsonObject(stored.layouts) ? checkedTable(stored.layouts, gpu) : null;
  } catch (error) {
    // A file of another user or of a broken disk is as good as none: the table is measured again.
    if (error instanceof SyntaxError || isSystemError(error)) return null;
    throw error;
  }
}

/** The entries of known classes and layouts. */
function checkedTable(
  given: Record<string, unknown>,
  gpu: Pick<Gpu, "facts" | "subgroup_size" | "wrong_layouts" | "wrong_segments">,
): LayoutTable {
  const table: Record<string, LayoutChoice> = {};
  for (const { name, kind } of deviceClasses(gpu)) {
    const entry = given[name];
    const known = layoutChoices(gpu, kind).find(({ layout, split }) =>
      isJsonObject(entry) && entry.layout === layout && entry.split === split
    );
    if (known) table[name] = known;
  }
  return table;
}

function isSystemError(error: unknown): boolean {
  return error instanceof Error && error.name in Deno.errors;
}

/** The parts of {@link tunedGpu} that tests replace. */
export interface TuningOptions {
  clock?: Clock;
  meter?: (gpu: Gpu, clock: Clock) => LayoutMeter;
}

/**
 * The device with its table of layouts, from the folder or measured and stored there. Every layout of a stored table is
 * compared with the plain form first and left out where its bits are others. A table that cannot be stored is measured
 * again by the next process. `facts.tuning` says what was done. A device without classes stays as it is.
 *
 * @throws {ServiceError} `device_lost` and `internal`, when the device fails.
 */
export async function tunedGpu(
  gpu: Gpu,
  folder: string,
  { clock = systemClock, meter: open = deviceMeter }: TuningOptions = {},
): Promise<Gpu> {
  if (deviceClasses(gpu).length === 0) return gpu;
  const stored = await readTuning(folder, gpu), meter = open(gpu, clock);
  try {
    const table = stored ? await rightTable(gpu, stored, meter) : await tuneLayouts(gpu, meter, clock);
    if (!stored) await storeTuning(folder, gpu.facts, table);
    const count = Object.keys(table).length, from = stored ? "stored" : "just measured";
    const tuning = `${count} of ${
      deviceClasses(gpu).length
    } classes of products have a layout of their own (${from})`;
    return { ...gpu, facts: { ...gpu.facts, tuning }, layouts: table };
  } finally {
    meter.close();
  }
}

/** What the folder has for a device, in words. */
export async function tuningText(
  folder: string,
  gpu: Pick<Gpu, "facts" | "subgroup_size" | "wrong_layouts" | "wrong_segments">,
  is_tuned: boolean,
): Promise<string> {
  if (!is_tuned) return "of their grids alone (SVC_TUNING=gpu measures GPUs, all every device)";
  const classes = deviceClasses(gpu).length, table = await readTuning(folder, gpu);
  if (classes === 0) return "of their grids alone: they are those of subgroup matrices";
  if (table === null) return "not measured yet: the next run does it (SVC_TUNING=off prevents it)";
  return `${Object.keys(table).length} of ${classes} classes measured, in ${tuningPath(folder, gpu.facts)}`;
}

/** The entries of a table whose layouts have the bits of the plain one in the products of their class. */
async function rightTable(gpu: Gpu, table: LayoutTable, meter: LayoutMeter): Promise<LayoutTable> {
  const chosen = deviceClasses(gpu).filter(({ name }) => table[name]);
  const right: Record<string, LayoutChoice> = {};
  for (const classes of Map.groupBy(chosen, ({ kind }) => kind.product).values()) {
    const { kind } = classes[0]!;
    const choices = layoutChoices(gpu, kind).filter((choice) =>
      classes.some(({ name }) => isSame(table[name]!, choice))
    );
    const found = await rightChoices(gpu, { kind, choices }, meter);
    for (const { name } of classes) {
      if (found.some((choice) => isSame(table[name]!, choice))) right[name] = table[name]!;
    }
  }
  return right;
}

function isSame(one: LayoutChoice, other: LayoutChoice): boolean {
  return one.layout === other.layout && one.split === other.split;
}

async function storeTuning(folder: string, facts: DeviceFacts, layouts: LayoutTable): Promise<void> {
  try {
    await makeDeviceFolder(folder, facts.name);
    await writeFileAtomic(tuningPath(folder, facts), JSON.stringify({ key: tuningKey(facts), layouts }));
  } catch (error) {
    if (!(error instanceof ServiceError || isSystemError(error))) throw error;
  }
}
