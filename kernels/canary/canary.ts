/**
 * Tests at the start that a device computes what its kernels say. A driver may be wrong in one form and right in
 * another, so each form that only some devices have is compared with the same product in float64, and with itself: the
 * bits of a row must not depend on the number of rows and on its place. Layouts of scalar products are compared with the
 * plain one.
 */

import { ServiceError } from "../../core/errors.ts";
import { type Gpu, SUBGROUP_MATRIX } from "../device.ts";
import { matmul } from "../matmul/matmul.ts";
import { everyMatrices, layoutName, type ScalarLayout, TILES } from "../matmul/matmul_layout.ts";
import { Recorder } from "../recorder.ts";
import { Allocator } from "../tensor.ts";
import { createWeight, writeWeight } from "../weights/weight.ts";

/** A form that a device takes because it has a feature. */
export interface Variant {
  name: string;
  /** The feature of the device's facts; without it the plain form is used. */
  feature: string;
  compute: "f32" | "f16";
}

/** The forms in the order of their tests: a later one may need an earlier one. */
export const VARIANTS: readonly Variant[] = [
  { name: "products with operands in f16", feature: "shader-f16", compute: "f16" },
  { name: "products of tiles by subgroups", feature: SUBGROUP_MATRIX, compute: "f16" },
];

const ORIENTATIONS = ["nt", "nn"] as const;

/** Numbers of rows with complete tiles and edges of the different ones. */
const ROWS = [3, 40, 260] as const;

/** No multiples of a tile, so that its edges are tested. */
const DEPTH = 68, COLUMNS = 76;

/** The rows of x repeat after so many, so that their products must have the same bits wherever they stand. */
const PERIOD = 3;

/** Small integers, so that every product and every sum is exact in f32, and every operand in f16. */
const integerAt = (i: number) => (i * 7) % 13 - 6;

/** Numbers whose sums have other bits in another order. */
const fractionAt = (i: number) => integerAt(i) / 9.7;

const WEIGHT = Float32Array.from({ length: COLUMNS * DEPTH }, (_, i) => integerAt(i + 5));

/** What the device gets wrong, as text; null if all products are right. */
async function wrongProduct(gpu: Gpu, compute: Variant["compute"]): Promise<string | null> {
  const allocator = new Allocator(gpu.device), recorder = new Recorder(gpu, allocator);
  try {
    // A product of this size would take one of the tiles of subgroups alone.
    const layouts = everyMatrices(gpu, compute), chosen = layouts.length > 0 ? layouts : [undefined];
    const cases = chosen.flatMap((layout) => ROWS.map((rows) => ({ layout, rows })));
    const products = ORIENTATIONS.flatMap((orientation) => {
      const shape: [number, number] = orientation === "nt" ? [COLUMNS, DEPTH] : [DEPTH, COLUMNS];
      // With operands in f16 a weight that is stored so has a reader of its own.
      const weights = (compute === "f16" ? [WEIGHT, Float16Array.from(WEIGHT)] : [WEIGHT]).map((values) => {
        const weight = createWeight(allocator, "canary", {
          type: values instanceof Float32Array ? "f32" : "f16",
          shape,
        });
        writeWeight(allocator, weight, new Uint8Array(values.buffer));
        return weight;
      });
      return weights.flatMap((weight) =>
        [integerAt, fractionAt].flatMap((valueAt) =>
          cases.map(({ layout, rows }) => {
            const x = allocator.upload("canary", [rows, DEPTH], rowsOf(rows, valueAt));
            const y = allocator.create("canary", [rows, COLUMNS]);
            matmul(recorder, orientation, { x, weight, y }, { compute, ...layout && { layout } });
            return { orientation, valueAt, y };
          })
        )
      );
    });
    const read = await recorder.submitAndRead(products.map(({ y }) => y));
    const values = read.map((bytes) => new Float32Array(bytes));
    for (const [i, { orientation, valueAt }] of products.entries()) {
      // Of integers the product is known; of fractions, the smallest product has the rows of all.
      const expected = valueAt === integerAt ? exactProduct(orientation) : values[i - i % cases.length]!;
      const wrong = firstDifference(values[i]!, expected);
      if (wrong !== null) return wrong;
    }
    return null;
  } catch (error) {
    // A form that the driver does not compile, or that loses the device, is wrong too.
    if (error instanceof ServiceError) return error.message;
    throw error;
  } finally {
    recorder.destroy();
    allocator.destroy();
  }
}

/** Rows of x, which repeat. */
function rowsOf(rows: number, valueAt: (i: number) => number): Float32Array {
  return Float32Array.from({ length: rows * DEPTH }, (_, i) => valueAt(i % (PERIOD * DEPTH)));
}

/** The first rows of the product of integers. */
function exactProduct(orientation: "nt" | "nn"): Float32Array {
  const weightAt = (d: number, column: number) =>
    WEIGHT[orientation === "nt" ? column * DEPTH + d : d * COLUMNS + column]!;
  return Float32Array.from({ length: PERIOD * COLUMNS }, (_, i) => {
    const row = Math.floor(i / COLUMNS), column = i % COLUMNS;
    let sum = 0;
    for (let d = 0; d < DEPTH; d++) sum += integerAt(row * DEPTH + d) * weightAt(d, column);
    return sum;
  });
}

/** The first value that is not that of its row in the first rows. */
function firstDifference(y: Float32Array, first_rows: Float32Array): string | null {
  for (const [i, value] of y.entries()) {
    const expected = first_rows[i % (PERIOD * COLUMNS)]!;
    if (value === expected) continue;
    return `row ${Math.floor(i / COLUMNS)}, column ${i % COLUMNS} is ${value} instead of ${expected}`;
  }
  return null;
}

/** Rows, columns and depth with complete tiles of all layouts, edges of some, and several chunks. */
const TILED = { rows: 132, columns: 256, depth: 512 };

/** The bits of a product in a layout. @throws {ServiceError} When the driver does not compile it, or loses the device. */
async function tiledBits(gpu: Gpu, orientation: "nt" | "nn", layout: ScalarLayout): Promise<Uint32Array> {
  const allocator = new Allocator(gpu.device), recorder = new Recorder(gpu, allocator);
  try {
    const { rows, columns, depth } = TILED,
      numbers = Float32Array.from({ length: columns * depth }, (_, i) => fractionAt(i));
    const shape: [number, number] = orientation === "nt" ? [columns, depth] : [depth, columns];
    const weight = createWeight(allocator, "canary", { type: "f32", shape });
    writeWeight(allocator, weight, new Uint8Array(numbers.buffer));
    const x = allocator.upload("canary", [rows, depth], numbers.subarray(0, rows * depth));
    const y = allocator.create("canary", [rows, columns]);
    matmul(recorder, orientation, { x, weight, y }, { compute: "f32", layout });
    const [bytes] = await recorder.submitAndRead([y]);
    return new Uint32Array(bytes!);
  } finally {
    recorder.destroy();
    allocator.destroy();
  }
}

/**
 * The layouts of a GPU's scalar products whose bits are not those of the plain one: tiles of few rows that walk their chunks.
 *
 * @param open Opens the device anew, after a layout that failed to compile.
 */
async function wrongLayouts(open: () => Promise<Gpu>): Promise<string[]> {
  let gpu = await open();
  const wrong: string[] = [];
  try {
    if (gpu.facts.software) return [];
    const bitsOf = async (layout: ScalarLayout) => [
      ...await tiledBits(gpu, "nt", layout),
      ...await tiledBits(gpu, "nn", layout),
    ];
    const plain = await bitsOf({ ...TILES.small, split: false });
    for (
      const layout of Object.values(TILES).flatMap((tile) =>
        [false, true].map((split) => ({ ...tile, split }))
      )
    ) {
      try {
        const bits = await bitsOf(layout);
        if (!bits.every((word, i) => word === plain[i])) wrong.push(layoutName(layout));
      } catch (error) {
        if (!(error instanceof ServiceError)) throw error;
        wrong.push(layoutName(layout));
        gpu.device.destroy();
        gpu = await open();
      }
    }
    return wrong;
  } finally {
    gpu.device.destroy();
  }
}

/** The facts of a device without some of its features. */
function without(gpu: Gpu, features: readonly string[]): Gpu {
  const left = gpu.facts.features.filter((feature) => !features.includes(feature));
  return { ...gpu, facts: { ...gpu.facts, features: left } };
}

/** What {@link testForms} found. */
export interface CanaryReport {
  /** Why the plain form is wrong; null if it is right. */
  plain: string | null;
  /** The variants that are wrong, with the reason. */
  wrong: { variant: Variant; reason: string }[];
  /** The layouts of scalar products that are wrong, by name. */
  wrong_layouts: string[];
}

/**
 * Tests the plain form, and the variants and layouts that a device would take. Each variant has a device of its own, because a
 * device that failed to compile goes on failing.
 *
 * @param open Opens the device anew.
 */
export async function testForms(
  open: () => Promise<Gpu>,
  variants: readonly Variant[] = VARIANTS,
): Promise<CanaryReport> {
  const test = async (compute: Variant["compute"], left_out: readonly string[]) => {
    const gpu = await open();
    try {
      return await wrongProduct(without(gpu, left_out), compute);
    } finally {
      gpu.device.destroy();
    }
  };
  const probe = await open(), has = probe.facts.features;
  probe.device.destroy();
  const all = variants.map(({ feature }) => feature);
  const plain = await test("f32", all), wrong: CanaryReport["wrong"] = [];
  if (plain !== null) return { plain, wrong, wrong_layouts: [] };
  for (const [i, variant] of variants.entries()) {
    if (!has.includes(variant.feature)) continue;
    const reason = await test(variant.compute, [
      ...all.slice(i + 1),
      ...wrong.map((one) => one.variant.feature),
    ]);
    if (reason !== null) wrong.push({ variant, reason });
  }
  return { plain, wrong, wrong_layouts: await wrongLayouts(open) };
}

/** The device without the features whose variants are wrong, and with the layouts that are. */
export function leaveOut(gpu: Gpu, { wrong, wrong_layouts }: CanaryReport): Gpu {
  return { ...without(gpu, wrong.map(({ variant }) => variant.feature)), wrong_layouts };
}
