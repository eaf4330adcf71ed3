/**
 * Chooses the form of a kernel. It depends on the device and the widths, never on the number of rows: a row's bits must
 * not depend on how many rows run with it.
 */

import { type Kernel, type WgslPart } from "./kernel.ts";
import type { Gpu } from "./device.ts";
import { ceilDiv } from "./shape.ts";
import scalarItemsWgsl from "./shared/scalar_items.wgsl" with { type: "text" };
import singleLaneWgsl from "./shared/single_lane.wgsl" with { type: "text" };
import subgroupLanesWgsl from "./shared/subgroup_lanes.wgsl" with { type: "text" };
import vectorItemsWgsl from "./shared/vector_items.wgsl" with { type: "text" };
import { unroll } from "./unroll.ts";

/**
 * The two forms of a kernel. `lanes` is for software adapters: no barriers; a lane works on its own rows and shares
 * loads at most by subgroup broadcasts. `tiles` is for GPUs: a workgroup shares a tile of rows, or one row, in
 * workgroup memory.
 */
export type KernelForm = "lanes" | "tiles";

/** The number of values that a kernel reads at once. */
export type ItemSize = 1 | 4;

/** The form of a kernel, and in the form `lanes` the lanes that broadcast to each other; 1: no subgroups. */
export interface FormOptions {
  form?: KernelForm;
  lanes?: number;
}

/** Subgroup sizes for which broadcasts are generated. */
const MIN_LANES = 4, MAX_LANES = 16;

/** Threads of a workgroup whose lanes share nothing. */
const SINGLE_LANES = 32;

/** Threads of a workgroup in the form `lanes`: a subgroup's lanes, or lanes that do not broadcast to each other. */
export function lanesThreads(lanes: number): number {
  return lanes === 1 ? SINGLE_LANES : lanes;
}

/** The form for a device. */
export function deviceForm({ facts }: Pick<Gpu, "facts">): KernelForm {
  return facts.software ? "lanes" : "tiles";
}

/** The form and the lanes for a device. */
export function deviceOptions(gpu: Pick<Gpu, "facts" | "subgroup_size">): Required<FormOptions> {
  const { subgroup_size } = gpu;
  const fits = subgroup_size >= MIN_LANES && subgroup_size <= MAX_LANES;
  return { form: deviceForm(gpu), lanes: fits ? subgroup_size : 1 };
}

/** The type of the operands of forward products, unless a model wants another: f16 on a GPU that has it. */
export function forwardCompute({ facts }: Pick<Gpu, "facts">): "f32" | "f16" {
  return !facts.software && facts.features.includes("shader-f16") ? "f16" : "f32";
}

/** 4 if every width is a multiple of 4, else 1. */
export function itemSize(...widths: readonly number[]): ItemSize {
  return widths.every((width) => width % 4 === 0) ? 4 : 1;
}

/** The WGSL that defines `item`, `item_size`, `item_sum` and `item_max`. */
export function itemPart(size: ItemSize): WgslPart {
  return size === 4
    ? { file: "shared/vector_items.wgsl", text: vectorItemsWgsl }
    : { file: "shared/scalar_items.wgsl", text: scalarItemsWgsl };
}

/**
 * The WGSL that defines broadcasts, `subgroup_max` and `subgroup_min` for lanes that share a subgroup, and `hide_lanes`. A
 * lane alone needs no subgroup operations, so a device without them compiles the text.
 */
export function lanesPart(lanes: number): WgslPart {
  if (lanes === 1) return { file: "shared/single_lane.wgsl", text: singleLaneWgsl };
  const SHUFFLES = lanes === 8 ? 1 : 0, sizes = { LANES: lanes, SHUFFLES, BROADCASTS: 1 - SHUFFLES };
  return { file: "shared/subgroup_lanes.wgsl", text: unroll(subgroupLanesWgsl, sizes) };
}

/** A constant of a shader: a `u32`, a `bool` or an `f32`. */
type WgslConstant = number | boolean | { f32: number };

function constantText(value: WgslConstant): string {
  if (typeof value === "object") return `f32(${value.f32})`;
  return typeof value === "number" ? `${value}u` : String(value);
}

/** A WGSL part of `const` declarations: numbers are `u32`, except in `{ f32 }`. */
export function constantsPart(values: Readonly<Record<string, WgslConstant>>): WgslPart {
  const lines = Object.entries(values).map(([name, value]) => `const ${name} = ${constantText(value)};\n`);
  return { file: "constants", text: lines.join("") };
}

/** Threads of a workgroup that reduces a row with this many items. */
export function rowThreads(items: number): number {
  return items <= 64 ? 32 : items <= 512 ? 64 : 256;
}

/** Kernels that are made on first use, one for each key. */
export function kernelFamily<A extends readonly (string | number)[], K extends Kernel>(
  define: (...key: A) => K,
): (...key: A) => K {
  const made = new Map<string, K>();
  return (...key) => {
    const name = key.join();
    let kernel = made.get(name);
    if (!kernel) made.set(name, kernel = define(...key));
    return kernel;
  };
}

/** The number of workgroups along one axis that every device allows. */
const MAX_GROUPS = 65535;

/**
 * A grid of at least `count` workgroups, continued in y when x is full. A kernel finds its index with `group.x +
 * group.y · groups.x`.
 */
export function wrappedGrid(count: number): readonly [number, number] {
  const y = ceilDiv(count, MAX_GROUPS);
  return [y === 0 ? 0 : ceilDiv(count, y), y];
}
