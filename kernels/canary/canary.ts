/**
 * Tests at the start that a device computes what its kernels say. A driver may be wrong in one form and right in
 * another, so each form of products that only some devices have is compared with the same product in float64, and with
 * itself: the bits of a row must not depend on the number of rows and on its place. Of a GPU's other forms, layouts of scalar
 * products are compared with the plain one, products of segments with the operations one by one, and attention with float64.
 */

import { ServiceError } from "../../core/errors.ts";
import { type Gpu, SUBGROUP_MATRIX } from "../device.ts";
import { matmul } from "../matmul/matmul.ts";
import {
  everyMatrices,
  layoutName,
  type ScalarLayout,
  takesMatrices,
  TILES,
} from "../matmul/matmul_layout.ts";
import { rowScales } from "../matmul/row_scales.ts";
import { forwardCompute } from "../variant.ts";
import { createWeight, writeWeight } from "../weights/weight.ts";
import { type SegmentsCase, withRecorder, wrongAttention, wrongSegments } from "./layer_forms.ts";

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

/**
 * What the device gets wrong, as text; null if all products are right.
 *
 * @throws {ServiceError} When the driver does not compile a kernel, or loses the device.
 */
async function wrongProduct(gpu: Gpu, compute: Variant["compute"]): Promise<string | null> {
  return await withRecorder(gpu, async (recorder, allocator) => {
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
            // In matrices, products of gradients have scales.
            const scales = allocator.create("canary", [rows]), is_scaled = layout && orientation === "nn";
            if (is_scaled) rowScales(recorder, { x, scales });
            const operands = { x, weight, y, row_scales: is_scaled ? scales : undefined };
            matmul(recorder, orientation, operands, { compute, ...layout && { layout } });
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
  });
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

/** The bits of products in a layout: of one forward, with the operands that a GPU takes for it, and of one backward. */
async function tiledBits(gpu: Gpu, layout: ScalarLayout): Promise<Uint32Array[]> {
  return await withRecorder(gpu, async (recorder, allocator) => {
    const { rows, columns, depth } = TILED,
      numbers = Float32Array.from({ length: columns * depth }, (_, i) => fractionAt(i));
    const x = allocator.upload("canary", [rows, depth], numbers.subarray(0, rows * depth));
    const products = ORIENTATIONS.map((orientation) => {
      const shape: [number, number] = orientation === "nt" ? [columns, depth] : [depth, columns];
      const weight = createWeight(allocator, "canary", { type: "f32", shape });
      writeWeight(allocator, weight, new Uint8Array(numbers.buffer));
      const y = allocator.create("canary", [rows, columns]);
      const forward = takesMatrices(gpu, "f16") ? "f32" : forwardCompute(gpu);
      matmul(recorder, orientation, { x, weight, y }, {
        ...{ compute: orientation === "nt" ? forward : "f32", layout },
      });
      return y;
    });
    return (await recorder.submitAndRead(products)).map((bytes) => new Uint32Array(bytes));
  });
}

/** A device for checks. It is opened anew after a kernel that the driver did not compile: such a device goes on failing. */
class CheckDevice {
  readonly #open: () => Promise<Gpu>;
  #gpu: Gpu | null = null;

  constructor(open: () => Promise<Gpu>) {
    this.#open = open;
  }

  async gpu(): Promise<Gpu> {
    return this.#gpu ??= await this.#open();
  }

  /**
   * What a check finds wrong, as text; null if nothing is. A form that the driver does not compile, that it refuses, or with
   * which it loses the device twice, is wrong too.
   *
   * @throws {ServiceError} `out_of_memory` when the device has too little for the check: nothing is wrong then.
   */
  async run(check: (gpu: Gpu) => Promise<string | null>, has_retried = false): Promise<string | null> {
    const { device } = await this.gpu();
    device.pushErrorScope("out-of-memory");
    device.pushErrorScope("validation");
    try {
      const wrong = await check(await this.gpu());
      const refused = await device.popErrorScope(), short = await device.popErrorScope();
      if (refused || short) this.close();
      if (short) throw new ServiceError("out_of_memory", `Cannot test the device: ${short.message}`);
      return refused?.message ?? wrong;
    } catch (error) {
      this.close();
      if (!(error instanceof ServiceError) || error.code === "out_of_memory") throw error;
      return error.code === "device_lost" && !has_retried ? await this.run(check, true) : error.message;
    }
  }

  close(): void {
    this.#gpu?.device.destroy();
    this.#gpu = null;
  }
}

/**
 * The layouts of a GPU's scalar products whose bits are not those of the plain one: tiles of few rows that walk their chunks.
 *
 * @returns `failed`: why the plain one cannot be computed, else null.
 */
async function wrongLayouts(device: CheckDevice): Promise<{ wrong: string[]; failed: string | null }> {
  const wrong: string[] = [];
  let plain: Uint32Array[] = [];
  const failed = await device.run(async (gpu) => {
    plain = await tiledBits(gpu, { ...TILES.small, split: false });
    return null;
  });
  if (failed !== null) return { wrong, failed };
  for (const tile of Object.values(TILES)) {
    for (const layout of [false, true].map((split) => ({ ...tile, split }))) {
      const reason = await device.run(async (gpu) => {
        const bits = await tiledBits(gpu, layout);
        return bits.every((y, i) => y.every((word, at) => word === plain[i]![at])) ? null : "other bits";
      });
      if (reason !== null) wrong.push(layoutName(layout));
    }
  }
  return { wrong, failed };
}

/**
 * Products of segments in each tile, the smallest first: of a few rows with many chunks, and of rows that end inside of the
 * tiles.
 */
function segmentsCases(gpu: Gpu, compute: Variant["compute"]): SegmentsCase[] {
  if (compute === "f16" && !gpu.facts.features.includes("shader-f16")) return [];
  const matrices = everyMatrices(gpu, compute).map((tile) => ({ ...tile, split: true })).reverse();
  const layouts = matrices.length > 0 ? matrices : [TILES.small, TILES.middle, TILES.large];
  return [
    { compute, layout: layouts[0]!, rows: 3, depth: 704 },
    ...layouts.map((layout) => ({ compute, layout, rows: 132, depth: 320 })),
  ];
}

/**
 * Compares products of segments with the operations one by one. A tile of scalars that is wrong where the smallest is right is
 * added to the wrong layouts; else `wrong_segments` has the reason.
 *
 * @param left_out The features whose variants are wrong.
 */
async function testSegments(
  device: CheckDevice,
  report: CanaryReport,
  left_out: readonly string[],
): Promise<void> {
  for (const compute of ["f32", "f16"] as const) {
    for (const given of segmentsCases(without(await device.gpu(), left_out), compute)) {
      const { layout } = given, name = layoutName({ ...layout, split: true });
      const has_others = layout.form === "tiles" && layout !== TILES.small;
      if (has_others && report.wrong_layouts.includes(name)) continue;
      const reason = await device.run((gpu) => wrongSegments(without(gpu, left_out), given));
      if (reason === null) continue;
      if (!has_others) return void (report.wrong_segments = reason);
      report.wrong_layouts.push(name);
    }
  }
}

/** The facts of a device without some of its features. */
function without(gpu: Gpu, features: readonly string[]): Gpu {
  const left = gpu.facts.features.filter((feature) => !features.includes(feature));
  return { ...gpu, facts: { ...gpu.facts, features: left } };
}

/** What {@link testForms} found. */
export interface CanaryReport {
  /** Why a form that has no other in its place is wrong, the plain products or a GPU's attention; null if they are right. */
  refused: string | null;
  /** The variants that are wrong, with the reason. */
  wrong: { variant: Variant; reason: string }[];
  /** The layouts of scalar products that are wrong, by name. */
  wrong_layouts: string[];
  /** Why products of segments, or what goes on with them, are wrong; null if they are right. */
  wrong_segments: string | null;
}

/**
 * Tests the plain form, and the variants that a device would take; on a GPU also attention, layouts and products of segments.
 *
 * @param open Opens the device anew.
 */
export async function testForms(
  open: () => Promise<Gpu>,
  variants: readonly Variant[] = VARIANTS,
): Promise<CanaryReport> {
  const all = variants.map(({ feature }) => feature), device = new CheckDevice(open);
  const report: CanaryReport = { refused: null, wrong: [], wrong_layouts: [], wrong_segments: null };
  const test = (compute: Variant["compute"], left_out: readonly string[]) =>
    device.run((gpu) => wrongProduct(without(gpu, left_out), compute));
  try {
    const { features, software } = (await device.gpu()).facts, plain = await test("f32", all);
    if (plain !== null) return { ...report, refused: `its products are wrong (${plain})` };
    const wrongFeatures = () => report.wrong.map(({ variant }) => variant.feature);
    for (const [i, variant] of variants.entries()) {
      if (!features.includes(variant.feature)) continue;
      const reason = await test(variant.compute, [...all.slice(i + 1), ...wrongFeatures()]);
      if (reason !== null) report.wrong.push({ variant, reason });
    }
    if (software) return report;
    const attention = await device.run(wrongAttention);
    if (attention !== null) return { ...report, refused: `its attention is wrong (${attention})` };
    const { wrong, failed } = await wrongLayouts(device);
    if (failed !== null) return { ...report, refused: `its products are wrong (${failed})` };
    report.wrong_layouts = wrong;
    await testSegments(device, report, wrongFeatures());
    return report;
  } finally {
    device.close();
  }
}

/** A compiler's message goes on with the text that it means. */
function firstLine(reason: string): string {
  return reason.split("\n")[0]!;
}

/**
 * The device without the features whose variants are wrong, and without the layouts and the segments that are.
 * `facts.left_out` names all of them, with the reasons.
 */
export function leaveOut(gpu: Gpu, { wrong, wrong_layouts, wrong_segments }: CanaryReport): Gpu {
  const left_out = [
    ...wrong.map(({ variant, reason }) => `${variant.name} (${firstLine(reason)})`),
    ...wrong_layouts.map((name) => `products in tiles of ${name}`),
    ...wrong_segments === null ? [] : [`products of segments (${firstLine(wrong_segments)})`],
  ];
  const left = without(gpu, wrong.map(({ variant }) => variant.feature));
  return {
    ...{ ...left, facts: { ...left.facts, ...left_out.length > 0 && { left_out } } },
    ...{ wrong_layouts, wrong_segments: wrong_segments !== null },
  };
}
