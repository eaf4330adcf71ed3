/** Finds the fastest layout of each class of products on a device. */

import type { Clock } from "../../core/clock.ts";
import type { Gpu } from "../device.ts";
import { matmul } from "../matmul/matmul.ts";
import {
  chooseLayout,
  everyLayout,
  layoutName,
  type ProductSize,
  type ScalarLayout,
} from "../matmul/matmul_layout.ts";
import { Recorder } from "../recorder.ts";
import { Allocator, type Tensor, view } from "../tensor.ts";
import type { Weight } from "../weights/weight.ts";
import { classSizes, type LayoutChoice, layoutClass, type LayoutTable } from "../layout_table.ts";

/** The time after which no further class is measured. */
export const BUDGET_MS = { gpu: 2000, software: 5000 };

/** A layout is chosen only if it takes at most this share of the time of the one that the grid suggests. */
const CLEARLY_FASTER = 0.95;

/** Each layout is timed so often, in turn with the others. All are compiled when their bits are compared. */
const ROUNDS = 2;

/** Floating-point operations of a measurement: long beside the wait for the device. */
const BATCH_FLOPS = { gpu: 2e10, software: 2e8 };
const MOST_DISPATCHES = 512;

/** Rows that a layout computes when its bits are compared: complete tiles of some, and edges of others. */
const CHECKED: ProductSize = { rows: 132, columns: 256, depth: 512 };

/** Runs layouts on a device. */
export interface LayoutMeter {
  /** The bits of a product of fixed numbers; rejects for a layout that the driver does not compile. */
  bits(layout: ScalarLayout): Promise<Uint32Array>;
  /** Milliseconds of a number of products that depends on the size alone. */
  time(layout: ScalarLayout, size: ProductSize): Promise<number>;
  close(): void;
}

/** The choices of a device: each of its layouts, and for tiles also with workgroups for each chunk. */
export function layoutChoices(gpu: Pick<Gpu, "facts" | "subgroup_size">): LayoutChoice[] {
  return everyLayout(gpu).flatMap(({ form }, layout) =>
    (form === "tiles" ? [false, true] : [false]).map((split) => ({ layout, split }))
  );
}

/** The layout of a choice; null if the device has none in its place. */
export function layoutOf(
  gpu: Pick<Gpu, "facts" | "subgroup_size">,
  { layout, split }: LayoutChoice,
): ScalarLayout | null {
  const found = everyLayout(gpu)[layout];
  if (!found) return null;
  return found.form === "tiles" ? { ...found, split } : found;
}

/**
 * The choices whose products have the bits of the plain form, the device's last layout without split. Drivers may be
 * wrong in one form and right in another.
 */
export async function rightChoices(
  gpu: Pick<Gpu, "facts" | "subgroup_size">,
  choices: readonly LayoutChoice[],
  meter: LayoutMeter,
): Promise<LayoutChoice[]> {
  const plain = await meter.bits(layoutOf(gpu, { layout: everyLayout(gpu).length - 1, split: false })!);
  const right: LayoutChoice[] = [];
  for (const choice of choices) {
    const layout = layoutOf(gpu, choice);
    const bits = layout && await meter.bits(layout).catch(() => null);
    if (bits && bits.length === plain.length && bits.every((word, i) => word === plain[i])) {
      right.push(choice);
    }
  }
  return right;
}

/**
 * Times the layouts of each class in turn and returns those that are clearly faster than what {@link chooseLayout} would
 * take. It ends when its time is spent; classes that were not reached keep their layouts.
 */
export async function tuneLayouts(
  gpu: Pick<Gpu, "facts" | "subgroup_size" | "wrong_layouts">,
  meter: LayoutMeter,
  clock: Pick<Clock, "monotonic_ms">,
): Promise<LayoutTable> {
  const until_ms = clock.monotonic_ms() + BUDGET_MS[gpu.facts.software ? "software" : "gpu"];
  const table: Record<string, LayoutChoice> = {},
    card = { facts: gpu.facts, subgroup_size: gpu.subgroup_size, wrong_layouts: gpu.wrong_layouts ?? [] };
  const choices = await rightChoices(gpu, layoutChoices(gpu), meter);
  for (const size of classSizes()) {
    const usual = chooseLayout(card, size), name = layoutClass(size)!;
    // A layout that products of the class would not take is not timed.
    const timed = choices.map((choice) => ({ choice, layout: layoutOf(gpu, choice)!, ms: Infinity }))
      .filter(({ choice, layout }) => {
        return layoutName(chooseLayout({ ...card, layouts: { [name]: choice } }, size)) ===
          layoutName(layout);
      });
    let usual_ms = Infinity;
    for (let round = 0; round < ROUNDS; round++) {
      if (clock.monotonic_ms() >= until_ms) return table;
      usual_ms = Math.min(usual_ms, await meter.time(usual, size));
      for (const one of timed) {
        if (clock.monotonic_ms() >= until_ms) return table;
        one.ms = Math.min(one.ms, await meter.time(one.layout, size));
      }
    }
    const best = timed.toSorted((a, b) => a.ms - b.ms)[0];
    if (best && best.ms <= CLEARLY_FASTER * usual_ms) table[name] = best.choice;
  }
  return table;
}

/** Repeated numbers whose sums have other bits in another order. */
const PATTERN = Float32Array.from({ length: 4093 }, (_, i) => ((i * 37) % 101 - 50) / 9.7);

/** A meter of a device, with tensors of the largest class. */
export function deviceMeter(gpu: Gpu, clock: Pick<Clock, "monotonic_ms">): LayoutMeter {
  const allocator = new Allocator(gpu.device), recorder = new Recorder(gpu, allocator);
  const most = classSizes().at(-1)!;
  const filled = (elements: number, dtype: "f32" | "f16") => {
    const tensor = allocator.create("tuning", [elements], dtype);
    const values = dtype === "f16" ? new Float16Array(elements) : new Float32Array(elements);
    values.set(PATTERN);
    for (let done = PATTERN.length; done < elements; done *= 2) values.copyWithin(done, 0, done);
    allocator.write(tensor, values);
    return tensor;
  };
  const xs = filled(most.rows * most.depth, "f32"), weights = filled(most.columns * most.depth, "f16");
  const ys = allocator.create("tuning", [most.rows * most.columns]);
  const record = (layout: ScalarLayout, { rows, columns, depth }: ProductSize): Tensor => {
    const weight: Weight = { type: "f16", values: view(weights, [columns, depth]), shape: [columns, depth] };
    const x = view(xs, [rows, depth]), y = view(ys, [rows, columns]);
    matmul(recorder, "nt", { x, weight, y }, { compute: "f32", layout });
    return y;
  };
  return {
    async bits(layout) {
      const [bytes] = await recorder.submitAndRead([record(layout, CHECKED)]);
      return new Uint32Array(bytes!);
    },
    async time(layout, size) {
      const flops = 2 * size.rows * size.columns * size.depth;
      const batch = BATCH_FLOPS[gpu.facts.software ? "software" : "gpu"];
      const count = Math.max(1, Math.min(MOST_DISPATCHES, Math.round(batch / flops)));
      for (let i = 0; i < count; i++) record(layout, size);
      const from = clock.monotonic_ms();
      await recorder.submitAndWait();
      return clock.monotonic_ms() - from;
    },
    close() {
      recorder.destroy();
      allocator.destroy();
    },
  };
}
