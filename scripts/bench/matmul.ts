/** GFLOP/s of the model's matrix products. */

import { LORA_TARGETS } from "../../core/lora_targets.ts";
import { matmul } from "../../kernels/matmul/matmul.ts";
import { chooseLayout, chooseMatrices, layoutName } from "../../kernels/matmul/matmul_layout.ts";
import { gradientOperands } from "../../kernels/matmul/row_scales.ts";
import { readsPairs } from "../../kernels/matmul/matmul_text.ts";
import { tensorBytes } from "../../kernels/tensor.ts";
import { type Weight, weightTensors } from "../../kernels/weights/weight.ts";
import { WEIGHT_TYPE_NAMES, WEIGHT_TYPES, type WeightTypeName } from "../../kernels/weights/table.ts";
import { rowMultiple } from "../../kernels/weights/weight_type.ts";
import { linearShape, type ModelShape } from "../../trainer/model/model_shape.ts";
import { inScope, type KernelBench, orSkip, productCompute, randomTensor, randomWeight } from "./context.ts";
import type { Peaks } from "./peaks.ts";
import { round } from "./report.ts";

/** A decode step has few rows, a micro-batch many; only training runs the backward pass (`nn`). */
const DECODE_ROWS = [1, 8, 32], TRAINING_ROWS = [256, 1024], GPU_TRAINING_ROWS = [...TRAINING_ROWS, 4096];
const QUICK_ROWS = [8];
/** The most memory for copies of a matrix. Copies are used in turn, as layers are in a step. */
const COPIES_BYTES = 512 << 20;

/** A frozen matrix of the model, `[out, in]`. */
export interface Matrix {
  name: string;
  out_width: number;
  in_width: number;
  /** How often the model has it. */
  count: number;
}

/** The model's distinct matrices; those of equal shape share a name. */
export function modelMatrices(shape: ModelShape): Matrix[] {
  const found = new Map<string, Matrix>();
  const add = (matrix: Matrix) => {
    const key = `${matrix.out_width}x${matrix.in_width}`, same = found.get(key);
    if (!same) found.set(key, matrix);
    else {
      same.name += `, ${matrix.name}`;
      same.count += matrix.count;
    }
  };
  for (const name of LORA_TARGETS) add({ name, ...linearShape(shape, name), count: shape.layers.length });
  add({ name: "output", out_width: shape.vocabulary, in_width: shape.width, count: 1 });
  return [...found.values()];
}

/**
 * All matrices in all types whose blocks divide their rows: forward (`nt`) for few and many rows, backward (`nn`) for
 * many.
 */
export async function benchMatmul(bench: KernelBench, peaks: Peaks): Promise<void> {
  const matrices = modelMatrices(bench.shape).slice(0, bench.quick ? 1 : undefined);
  for (const matrix of matrices) {
    for (const type of WEIGHT_TYPE_NAMES) {
      if (matrix.in_width % rowMultiple(WEIGHT_TYPES[type]) !== 0) continue;
      await inScope(bench, (scoped) =>
        orSkip(scoped, ["matmul", `${matrix.name} ${type}`], async () => {
          const weights = createCopies(scoped, { matrix, type });
          await benchWeights(scoped, { name: matrix.name, weights, peaks });
        }));
    }
  }
}

/** As many copies as the model has layers and {@link COPIES_BYTES} can hold. */
function createCopies(
  { allocator }: KernelBench,
  { matrix, type }: { matrix: Matrix; type: WeightTypeName },
): Weight[] {
  const weights: Weight[] = [];
  do weights.push(randomWeight(allocator, type, [matrix.out_width, matrix.in_width])); while (
    weights.length < matrix.count && (weights.length + 1) * weightBytes(weights[0]!) <= COPIES_BYTES
  );
  return weights;
}

function weightBytes(weight: Weight): number {
  return weightTensors(weight).reduce((sum, tensor) => sum + tensorBytes(tensor.shape, tensor.dtype), 0);
}

/** Copies of one matrix. */
interface Copies {
  name: string;
  weights: readonly Weight[];
  peaks: Peaks;
}

async function benchWeights(bench: KernelBench, copies: Copies): Promise<void> {
  const { software, quick } = bench;
  const training = quick ? QUICK_ROWS : software ? TRAINING_ROWS : GPU_TRAINING_ROWS;
  const rows_of = { nt: [...quick ? [] : DECODE_ROWS, ...training], nn: training };
  for (const orientation of ["nt", "nn"] as const) {
    for (const rows of rows_of[orientation]) {
      const name = `${copies.name} ${orientation} ${copies.weights[0]!.type}, ${rows} rows`;
      await orSkip(
        bench,
        ["matmul", name],
        () => inScope(bench, (scoped) => benchProduct(scoped, { ...copies, name, orientation, rows })),
      );
    }
  }
}

interface Product extends Copies {
  orientation: "nt" | "nn";
  rows: number;
}

async function benchProduct(bench: KernelBench, product: Product): Promise<void> {
  const { allocator, recorder, stopwatch, report, gpu } = bench;
  const { name, orientation, rows, weights, peaks } = product;
  const [w_rows, w_columns] = weights[0]!.shape, type = weights[0]!.type;
  const [columns, depth] = orientation === "nt" ? [w_rows, w_columns] : [w_columns, w_rows];
  const x = randomTensor(allocator, [rows, depth]);
  const y = allocator.create("bench", [rows, columns]);
  const compute = productCompute(gpu, orientation), scales = allocator.create("bench", [rows]);
  const seconds = await stopwatch.seconds((i) => {
    const operands = { x, weight: weights[i % weights.length]!, y };
    if (orientation === "nt") return matmul(recorder, orientation, operands, { compute });
    const { row_scales } = gradientOperands(recorder, compute, { x, scales });
    matmul(recorder, orientation, { ...operands, row_scales }, { compute });
  });
  const gflops = 2 * rows * columns * depth / seconds / 1e9;
  // The least memory traffic: the weight and both activations, once each.
  const gigabytes_per_s = (weightBytes(weights[0]!) + 4 * rows * (depth + columns)) / seconds / 1e9;
  report.add({
    ...{ bench: "matmul", name, value: round(gflops), unit: "GFLOP/s", microseconds: round(1e6 * seconds) },
    ...{ orientation, rows, columns, depth, weight: type, compute, weights: weights.length },
    layout: layoutName(
      chooseMatrices(gpu, compute, { rows, columns, depth }) ??
        chooseLayout(gpu, { rows, columns, depth }, {
          reads_pairs: readsPairs({ orientation, weight: type }),
          kind: { orientation, compute },
        }),
    ),
    share_of_peak: round(gflops / peaks.gflops),
    share_of_bandwidth: round(gigabytes_per_s / peaks.gigabytes_per_s),
  });
}
