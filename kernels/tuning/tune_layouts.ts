/**
 * Finds the fastest layout of each class of products on a device: of scalar sums alone, because products of subgroup
 * matrices choose among a few tiles by the numbers of workgroups (`chooseMatrices`).
 */

import type { Clock } from "../../core/clock.ts";
import type { Gpu } from "../device.ts";
import { matmul } from "../matmul/matmul.ts";
import {
  chooseLayout,
  chooseSegmentsTile,
  everyLayout,
  layoutName,
  type ScalarLayout,
  SEGMENT_TILES,
  takesMatrices,
  TILES,
} from "../matmul/matmul_layout.ts";
import { matmulSegments } from "../matmul/matmul_segments.ts";
import type { TilesLayout } from "../matmul/matmul_text.ts";
import { Recorder } from "../recorder.ts";
import { Allocator, type Tensor, view } from "../tensor.ts";
import { deviceForm, forwardCompute } from "../variant.ts";
import type { Weight } from "../weights/weight.ts";
import {
  gpuClasses,
  type LayoutChoice,
  type LayoutTable,
  type MeasuredClass,
  type ProductKind,
  softwareClasses,
} from "../layout_table.ts";

/**
 * The time after which no further class is measured. A GPU's includes the compilation of ten kernels, which may take as
 * long as all of its measurements.
 */
export const BUDGET_MS = { gpu: 4000, software: 5000 };

/** A layout is chosen only if it takes at most this share of the time of the one that the grid suggests. */
const CLEARLY_FASTER = 0.95;

/** A layout that takes this share of that time is not timed again. */
const CLEARLY_SLOWER = 1.2;

/** Each layout is timed so often, in turn with the others. All are compiled when their bits are compared. */
const ROUNDS = 2;

/** Floating-point operations of a measurement, of a class's first one on a GPU, and the most products of that. */
const BATCH_FLOPS = { gpu: 2e10, software: 2e8 };
const MOST_FIRST = 512;

/** On a GPU a measurement has as many products as the usual layout computes in this time: at least, and as a target. */
const BUSY_MS = { least: 10, target: 15 };

/** The most products of a measurement. */
const MOST_PRODUCTS = 8192;

/** A GPU works on so many products while the next ones are recorded. */
const SUBMIT_PRODUCTS = 32;

/** Empty submits that are timed, and the shortest time that can be told from them. */
const IDLE_RUNS = 3, SHORTEST_MS = 0.05;

/** The size with which bits of layouts are compared: complete tiles of some, edges of others, and several chunks. */
const CHECKED = { rows: 132, columns: 256, depth: 512 };

/** The columns of segments with which bits are compared. */
const CHECKED_SEGMENTS = [256, 68];

/** What is measured of a class. */
export type MeasuredProduct = Omit<MeasuredClass, "name">;

/** Runs layouts on a device. */
export interface LayoutMeter {
  /** The bits of a product of fixed numbers; rejects for a layout that the driver does not compile. */
  bits(kind: ProductKind, layout: ScalarLayout): Promise<Uint32Array>;
  /** Milliseconds of a number of products, the same for all layouts of one `product`, without what an empty submit takes. */
  time(product: MeasuredProduct, layout: ScalarLayout): Promise<number>;
  close(): void;
}

type Card = Pick<Gpu, "facts" | "subgroup_size" | "wrong_layouts" | "wrong_segments">;

/**
 * The classes of a device, in the order in which they are measured: of products that it takes. Where products take subgroup
 * matrices there are none, and a model that wants other operands has the layouts that its grids suggest.
 */
export function deviceClasses(gpu: Card): MeasuredClass[] {
  if (deviceForm(gpu) === "lanes") return softwareClasses();
  const forward = forwardCompute(gpu);
  if (takesMatrices(gpu, forward)) return [];
  return gpuClasses(forward).filter(({ kind }) => kind.product !== "segments" || !gpu.wrong_segments);
}

/**
 * The choices of a device for a kind of products: each of its layouts, and for tiles also with workgroups for each chunk,
 * which segments always have. The canary's wrong layouts are none, nor are tiles for fewer columns than those of any class.
 */
export function layoutChoices(gpu: Card, { product }: Pick<ProductKind, "product">): LayoutChoice[] {
  const all = everyLayout(gpu).flatMap(({ form }, layout) =>
    (form === "tiles" ? [false, true] : [false]).map((split) => ({ layout, split }))
  );
  const segments = SEGMENT_TILES.map((tile) => Object.values<TilesLayout>(TILES).indexOf(tile));
  return all.filter((choice) => {
    const found = layoutOf(gpu, choice)!;
    if (gpu.wrong_layouts?.includes(layoutName(found))) return false;
    if (found.form === "lanes") return true;
    return segments.includes(choice.layout) && (choice.split || product !== "segments");
  });
}

/** The layout of a choice; null if the device has none in its place. */
export function layoutOf(gpu: Card, { layout, split }: LayoutChoice): ScalarLayout | null {
  const found = everyLayout(gpu)[layout];
  if (!found) return null;
  return found.form === "tiles" ? { ...found, split } : found;
}

/** The layout with which others are compared: a GPU's tile of few rows, a software adapter's last layout. */
function plainLayout(gpu: Card, { product }: ProductKind): ScalarLayout {
  if (deviceForm(gpu) === "tiles") return { ...TILES.small, split: product === "segments" };
  return everyLayout(gpu).at(-1)!;
}

/** The layout that a device takes for the size of a class. */
function chosenLayout(
  gpu: Card & Pick<Gpu, "layouts">,
  { kind: { product, compute }, rows, columns, depth }: MeasuredProduct,
): ScalarLayout {
  if (product === "segments") {
    // No class has products of subgroup matrices.
    const tile = chooseSegmentsTile(gpu, { rows, depth, compute }, columns) as TilesLayout;
    return { ...tile, split: true };
  }
  const size = { rows, columns: columns[0]!, depth };
  return chooseLayout(gpu, size, { kind: { orientation: product, compute } });
}

/**
 * The choices whose products of a kind have the bits of the plain form. Drivers may be wrong in one form and right in
 * another.
 */
export async function rightChoices(
  gpu: Card,
  { kind, choices }: { kind: ProductKind; choices: readonly LayoutChoice[] },
  meter: LayoutMeter,
): Promise<LayoutChoice[]> {
  const plain = await meter.bits(kind, plainLayout(gpu, kind));
  const right: LayoutChoice[] = [];
  for (const choice of choices) {
    const layout = layoutOf(gpu, choice);
    const bits = layout && await meter.bits(kind, layout).catch(() => null);
    if (bits && bits.length === plain.length && bits.every((word, i) => word === plain[i])) {
      right.push(choice);
    }
  }
  return right;
}

/**
 * Times the layouts of each class in turn and returns those that are clearly faster than what the device would take. It ends
 * when its time is spent; classes that were not reached keep their layouts.
 */
export async function tuneLayouts(
  gpu: Card,
  meter: LayoutMeter,
  clock: Pick<Clock, "monotonic_ms">,
): Promise<LayoutTable> {
  const until_ms = clock.monotonic_ms() + BUDGET_MS[gpu.facts.software ? "software" : "gpu"];
  const is_spent = () => clock.monotonic_ms() >= until_ms;
  const table: Record<string, LayoutChoice> = {},
    right = new Map<ProductKind["product"], LayoutChoice[]>(),
    card = { facts: gpu.facts, subgroup_size: gpu.subgroup_size, wrong_layouts: gpu.wrong_layouts ?? [] };
  for (const { name, ...product } of deviceClasses(gpu)) {
    if (is_spent()) break;
    const { kind } = product;
    let choices = right.get(kind.product);
    if (!choices) {
      choices = await rightChoices(card, { kind, choices: layoutChoices(card, kind) }, meter);
      right.set(kind.product, choices);
    }
    const usual = chosenLayout(card, product), usual_name = layoutName(usual);
    // A layout that products of the class would not take is not timed, nor is the usual one twice.
    const timed = choices.map((choice) => ({ choice, layout: layoutOf(card, choice)! }))
      .filter(({ choice, layout }) => {
        const taken = layoutName(chosenLayout({ ...card, layouts: { [name]: choice } }, product));
        return taken === layoutName(layout) && taken !== usual_name;
      });
    const best = await fastest({ usual, timed, product }, meter, is_spent);
    if (best) table[name] = best;
  }
  return table;
}

/** The choice that is clearly faster than the usual layout; null if none is, or the time was spent before all were timed. */
async function fastest(
  { usual, timed, product }: {
    usual: ScalarLayout;
    timed: readonly { choice: LayoutChoice; layout: ScalarLayout }[];
    product: MeasuredProduct;
  },
  meter: LayoutMeter,
  isSpent: () => boolean,
): Promise<LayoutChoice | null> {
  let usual_ms = Infinity, left = timed.map((one) => ({ ...one, ms: Infinity }));
  for (let round = 0; round < ROUNDS && left.length > 0; round++) {
    if (isSpent()) return null;
    usual_ms = Math.min(usual_ms, await meter.time(product, usual));
    for (const one of left) {
      if (isSpent()) return null;
      one.ms = Math.min(one.ms, await meter.time(product, one.layout));
    }
    left = left.filter(({ ms }) => ms < CLEARLY_SLOWER * usual_ms);
  }
  const best = left.toSorted((a, b) => a.ms - b.ms)[0];
  return best && best.ms <= CLEARLY_FASTER * usual_ms ? best.choice : null;
}

/** Repeated numbers whose sums have other bits in another order. */
const PATTERN = Float32Array.from({ length: 4093 }, (_, i) => ((i * 37) % 101 - 50) / 9.7);

/** A tensor of {@link PATTERN}. */
function filled(allocator: Allocator, elements: number, dtype: "f32" | "f16"): Tensor {
  const tensor = allocator.create("tuning", [elements], dtype);
  const values = dtype === "f16" ? new Float16Array(elements) : new Float32Array(elements);
  values.set(PATTERN);
  for (let done = PATTERN.length; done < elements; done *= 2) values.copyWithin(done, 0, done);
  allocator.write(tensor, values);
  return tensor;
}

/** Milliseconds until a number of products is computed; of none: of an empty submit. */
type TimedRun = (count: number, product: MeasuredProduct, layout: ScalarLayout) => Promise<number>;

/**
 * {@link LayoutMeter.time} of runs. A GPU's first run of a class finds how many products are long beside the host's work and
 * the wait for the device.
 */
export function timeProducts({ facts }: Pick<Gpu, "facts">, run: TimedRun): LayoutMeter["time"] {
  const counts = new WeakMap<MeasuredProduct, number>();
  let idle_ms: number | null = null;
  return async (product, layout) => {
    if (idle_ms === null) {
      idle_ms = Infinity;
      for (let i = 0; i < IDLE_RUNS; i++) idle_ms = Math.min(idle_ms, await run(0, product, layout));
    }
    const idle = idle_ms, busy = async (count: number) => await run(count, product, layout) - idle;
    const flops = 2 * product.rows * sumOf(product.columns) * product.depth;
    const first = Math.round(BATCH_FLOPS[facts.software ? "software" : "gpu"] / flops);
    const known = counts.get(product);
    let count = known ?? Math.max(1, Math.min(MOST_FIRST, first)), ms = await busy(count);
    while (!known && !facts.software && ms < BUSY_MS.least && count < MOST_PRODUCTS) {
      // A wait of uncertain length may be most of a short time.
      count = Math.min(MOST_PRODUCTS, Math.ceil(count * BUSY_MS.target / Math.max(ms, BUSY_MS.target / 16)));
      ms = await busy(count);
    }
    counts.set(product, count);
    return Math.max(ms, SHORTEST_MS);
  };
}

const sumOf = (numbers: readonly number[]) => numbers.reduce((sum, one) => sum + one, 0);

/** A meter of a device that has classes, with tensors for the largest of them. */
export function deviceMeter(gpu: Gpu, clock: Pick<Clock, "monotonic_ms">): LayoutMeter {
  const allocator = new Allocator(gpu.device), recorder = new Recorder(gpu, allocator);
  const classes = deviceClasses(gpu);
  const most = (elements: (one: MeasuredClass) => number) => Math.max(...classes.map(elements));
  const weight_elements = most(({ columns, depth }) => sumOf(columns) * depth);
  const xs = filled(allocator, most(({ rows, depth }) => rows * depth), "f32"),
    weights = filled(allocator, weight_elements, "f16");
  // Segments have their sums in the scratch tensor.
  const ys = allocator.create("tuning", [most(({ rows, columns, kind }) => {
    return kind.product === "segments" ? 0 : rows * sumOf(columns);
  })]);
  const record = (
    layout: ScalarLayout,
    { kind: { product, compute }, rows, columns, depth }: MeasuredProduct,
    copy = 0,
  ): Tensor => {
    // Decoding reads each weight once, so copies of segments' weights take turns: no cache has them.
    const elements = sumOf(columns) * depth, copies = Math.floor(weight_elements / elements);
    let at = copy % copies * elements;
    const weightOf = (shape: readonly [number, number]): Weight => {
      const values = view(weights, shape, at);
      at += shape[0] * shape[1];
      return { type: "f16", values, shape };
    };
    const x = view(xs, [rows, depth]);
    if (product === "segments") {
      const given = { x, weights: columns.map((columns) => weightOf([columns, depth])) };
      const { split: _, ...tile } = layout as TilesLayout & { split: boolean };
      return matmulSegments(recorder, given, { compute, layout: tile }).sums;
    }
    const [width] = columns as [number], y = view(ys, [rows, width]);
    const weight = weightOf(product === "nt" ? [width, depth] : [depth, width]);
    matmul(recorder, product, { x, weight, y }, { compute, layout });
    return y;
  };
  return {
    async bits(kind, layout) {
      const columns = kind.product === "segments" ? CHECKED_SEGMENTS : [CHECKED.columns];
      const [bytes] = await recorder.submitAndRead([record(layout, { kind, ...CHECKED, columns })]);
      return new Uint32Array(bytes!);
    },
    time: timeProducts(gpu, async (count, product, layout) => {
      const from = clock.monotonic_ms();
      for (let i = 0; i < count; i++) {
        if (i > 0 && i % SUBMIT_PRODUCTS === 0 && !gpu.facts.software) recorder.submit();
        record(layout, product, product.kind.product === "segments" ? i : 0);
      }
      await recorder.submitAndWait();
      return clock.monotonic_ms() - from;
    }),
    close() {
      recorder.destroy();
      allocator.destroy();
    },
  };
}
