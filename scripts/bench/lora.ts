/** GFLOP/s of an adapter's part of a training step, at several ranks. */

import { loraGradient, loraGradientPartials } from "../../kernels/lora_gradient/lora_gradient.ts";
import { matmul, takesA } from "../../kernels/matmul/matmul.ts";
import { gradientOperands } from "../../kernels/matmul/row_scales.ts";
import type { Recorder } from "../../kernels/recorder.ts";
import type { Tensor } from "../../kernels/tensor.ts";
import { deviceForm } from "../../kernels/variant.ts";
import type { Weight } from "../../kernels/weights/weight.ts";
import { inScope, type KernelBench, orSkip, productCompute, randomTensor, randomWeight } from "./context.ts";
import { type Matrix, modelMatrices } from "./matmul.ts";
import type { Peaks } from "./peaks.ts";
import { round } from "./report.ts";

const RANKS = [8, 16, 64], QUICK_RANKS = [8];
/** Rows of a micro-batch; a decode step has the few rows of the forward pass. */
const ROWS = [1024], GPU_ROWS = [1024, 4096], QUICK_ROWS = [8], DECODE_ROWS = [8];

/** One kernel on one shape. */
interface LoraWork {
  name: string;
  /** Multiplications and additions. */
  flops: number;
  compute: "f32" | "f16";
  /** The number of dispatches of `record`. */
  dispatches: number;
  record: () => void;
}

interface LoraShape extends Matrix {
  rows: number;
  rank: number;
}

/**
 * For each linear layer `y = x·Wᵀ + s·(x·Aᵀ)·Bᵀ` of the model: x·Aᵀ, y, and in the backward pass d_u = d_y·B, d_x and
 * the gradients of A and B, with the operands and forms of a step (trainer/model/transformer_backward.ts). Layers that
 * share their input compute x·Aᵀ as one product.
 */
export async function benchLora(bench: KernelBench, peaks: Peaks): Promise<void> {
  const { software, quick } = bench;
  const matrices = modelMatrices(bench.shape).filter(({ name }) => name !== "output");
  const training_rows = quick ? QUICK_ROWS : software ? ROWS : GPU_ROWS;
  for (const matrix of matrices.slice(0, quick ? 1 : undefined)) {
    for (const rank of quick ? QUICK_RANKS : RANKS) {
      for (const rows of new Set([...DECODE_ROWS, ...training_rows])) {
        const shape = { ...matrix, rank, rows }, name = `${matrix.name} rank ${rank}, ${rows} rows`;
        const trains = training_rows.includes(rows);
        await orSkip(
          bench,
          ["lora", name],
          () => inScope(bench, (scoped) => benchShape(scoped, shape, { name, trains, peaks })),
        );
      }
    }
  }
}

async function benchShape(
  bench: KernelBench,
  shape: LoraShape,
  { name, trains, peaks }: { name: string; trains: boolean; peaks: Peaks },
): Promise<void> {
  const { stopwatch, report } = bench, { rows, rank, in_width, out_width } = shape;
  for (const work of loraWork(bench, shape, { trains })) {
    const seconds = await stopwatch.seconds(work.record, work.dispatches);
    const gflops = work.flops / seconds / 1e9;
    report.add({
      ...{
        bench: "lora",
        name: `${work.name} of ${name}`,
        part: work.name,
        value: round(gflops),
        unit: "GFLOP/s",
      },
      ...{ microseconds: round(1e6 * seconds), flops: work.flops, rows, rank, in_width, out_width },
      ...{ compute: work.compute, share_of_peak: round(gflops / peaks.gflops) },
    });
  }
}

/** The kernels of one linear layer, in a step's order. */
function loraWork(
  { allocator, recorder, gpu }: KernelBench,
  { rows, rank, in_width, out_width }: LoraShape,
  { trains }: { trains: boolean },
): LoraWork[] {
  const random = (...size: number[]) => randomTensor(allocator, size);
  const weightOf = (values: Tensor): Weight => ({
    type: "f32",
    values,
    shape: values.shape as readonly [number, number],
  });
  const frozen = randomWeight(allocator, "f16", [out_width, in_width]);
  const a = random(rank, in_width), b = random(out_width, rank), u = random(rows, rank);
  const x = random(rows, in_width), y = random(rows, out_width);
  const product = 2 * rows * in_width * out_width, down = 2 * rows * rank * in_width;
  const up = 2 * rows * rank * out_width, term = { u, column: 0, scale: 1 };
  const compute = productCompute(gpu, "nt"), one = { compute, dispatches: 1 };
  // Where no backward pass needs x·Aᵀ, a software adapter has it in the product.
  if (!trains && takesA(gpu, { rows, columns: out_width, depth: in_width, rank })) {
    const lora = { u: a, u_is_a: true, column: 0, scale: 1, matrix: b };
    return [{
      ...{ name: "x·Wᵀ + x·Aᵀ·Bᵀ", flops: product + down + up, ...one },
      record: () => matmul(recorder, "nt", { x, weight: frozen, y, lora }, { compute }),
    }];
  }
  const forward: LoraWork[] = [
    {
      ...{ name: "x·Aᵀ", flops: down, ...one },
      record: () => matmul(recorder, "nt", { x, weight: weightOf(a), y: u }, { compute }),
    },
    {
      ...{ name: "x·Wᵀ + u·Bᵀ", flops: product + up, ...one },
      record: () =>
        matmul(recorder, "nt", { x, weight: frozen, y, lora: { ...term, matrix: b } }, { compute }),
    },
  ];
  if (!trains) return forward;
  const back = productCompute(gpu, "nn"), scales = allocator.create("bench", [rows]);
  const recordInput = () => {
    const lora = { ...term, matrix: a };
    const { row_scales } = gradientOperands(recorder, back, { x: y, lora, scales });
    const operands = { x: y, weight: frozen, y: x, lora, row_scales };
    matmul(recorder, "nn", operands, { compute: back, accumulate: true });
  };
  return [
    ...forward,
    {
      ...{ name: "d_u = d_y·B", flops: up, compute: "f32", dispatches: 1 },
      record: () => matmul(recorder, "nn", { x: y, weight: weightOf(b), y: u }, { compute: "f32" }),
    },
    {
      ...{ name: "d_x += d_y·W + d_u·A", flops: product + down, compute: back },
      // The scales of f16 are another.
      ...{ dispatches: back === "f16" ? 2 : 1, record: recordInput },
    },
    ...gradients(recorder, { x, y, u, a, b }, random),
  ];
}

function gradients(
  recorder: Recorder,
  { x, y, u, a, b }: { x: Tensor; y: Tensor; u: Tensor; a: Tensor; b: Tensor },
  random: (...size: number[]) => Tensor,
): LoraWork[] {
  const form = deviceForm(recorder.gpu), [rows, rank] = u.shape as [number, number];
  return ([["A", x, a, "rank_column"], ["B", y, b, "column_rank"]] as const).map(([name, p, out, order]) => {
    const columns = p.shape[1]!;
    const partials = random(Math.max(4, loraGradientPartials({ rows, columns, rank }, form)));
    return {
      ...{ name: `gradient of ${name}`, flops: 2 * rows * rank * columns, compute: "f32" },
      dispatches: form === "tiles" ? 2 : 1,
      record: () => loraGradient(recorder, { p, q: u, out, partials }, { order, alpha: 1e-9 }),
    };
  });
}
