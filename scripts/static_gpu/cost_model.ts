/**
 * Estimates the time of a dispatch on a GPU, from its grid, its operands and what a compiler says of its kernel. These are
 * estimates: nothing here is measured. They show which kernels dominate and what a change is worth.
 */

import { kernelText } from "../../kernels/kernel.ts";
import { SHARED_ROWS } from "../../kernels/kv_pages/attention_paged.ts";
import { PARTS_BATCH, splitGradient } from "../../kernels/lora_gradient/lora_gradient.ts";
import { CHUNKS_BATCH } from "../../kernels/matmul/matmul.ts";
import { TILE_DEPTH } from "../../kernels/matmul/matmul_text.ts";
import { ceilDiv } from "../../kernels/shape.ts";
import { bytesOf, type Tensor, tensorBytes } from "../../kernels/tensor.ts";
import type { StoredStatistics } from "./ceilings.ts";
import { multiplyAdds } from "./grids.ts";
import { matricesLayout, matricesRound } from "./matrices_model.ts";
import { type Launch, workgroups } from "./launches.ts";

/** A GPU as the model sees it. */
export interface GpuModel {
  name: string;
  multiprocessors: number;
  clock_hz: number;
  /** f32 multiply-adds of a multiprocessor in a cycle. */
  lanes: number;
  /** Those of matrices in f16 whose sums are f32; null where the program multiplies none (`multipliesTiles`). */
  matrix_lanes: number | null;
  bytes_per_second: number;
  /** Between the end of a dispatch and the start of one that waits for it. */
  gap_seconds: number;
}

/**
 * @source The vendors' data sheets; the gaps are estimates. On an H100 the instruction that subgroups have reaches 0.63 of the
 * peak of matrices (Luo et al., "Benchmarking and Dissecting the Nvidia Hopper GPU Architecture", 2024). An RX 7900
 * has subgroups of two sizes, and an M4 has matrices of 8 × 8 only.
 */
export const GPU_MODELS: readonly GpuModel[] = [
  {
    ...{ name: "H100", multiprocessors: 132, clock_hz: 1.7e9, lanes: 128, matrix_lanes: 1280 },
    ...{ bytes_per_second: 3350e9, gap_seconds: 4e-6 },
  },
  {
    ...{ name: "RTX 4090", multiprocessors: 128, clock_hz: 2.5e9, lanes: 128, matrix_lanes: 256 },
    ...{ bytes_per_second: 1008e9, gap_seconds: 3.5e-6 },
  },
  {
    ...{ name: "RX 7900 XTX", multiprocessors: 96, clock_hz: 2.4e9, lanes: 64, matrix_lanes: null },
    ...{ bytes_per_second: 960e9, gap_seconds: 5e-6 },
  },
  {
    ...{ name: "M4 Max", multiprocessors: 40, clock_hz: 1.6e9, lanes: 128, matrix_lanes: null },
    ...{ bytes_per_second: 546e9, gap_seconds: 5e-6 },
  },
];

/** Registers of a multiprocessor, and the most workgroups on it. */
const REGISTERS = 65_536, MAX_RESIDENT = 16;
/** Lanes that execute one instruction. */
const WARP = 32;
/** Warps that a multiprocessor needs to hide the latency of memory and arithmetic. */
const BUSY_WARPS = 8;
/**
 * The part of the instructions around a tile that runs in a round: of two ways to load an operand (weight, low-rank term)
 * one runs, and where only some threads load, other warps skip it.
 */
const AROUND_SHARE = 0.4;
/** Cycles of a round that a workgroup alone on its multiprocessor waits for memory and barriers. */
const ALONE_WAIT = 900;
/** A tile's instructions wait for each other where no other workgroup fills in. */
const ALONE_FACTOR = 1.25;
/** The part of the issue slots that resident workgroups fill together. */
const ISSUE_SHARE = 0.85;
/** The part of attention's instructions that is not lost to masks, ends of rows and barriers. */
const ATTENTION_SHARE = 0.5;
/** The parts of the bandwidth that streaming kernels and those that follow page tables reach. */
const STREAM_SHARE = 0.6, WEIGHT_SHARE = 0.8, PAGES_SHARE = 0.2;
/** How many times as many bytes the second cache gives as the memory. */
const CACHE_FACTOR = 2;
/** The part of the peak that a product without a known tile reaches. */
const PLAIN_SHARE = 0.1;

/** What a dispatch's kernel and its sequences are like. */
export interface LaunchFacts {
  /** Of the kernel's form; null for one without. */
  statistics: StoredStatistics | null;
  /** Tokens that a row of attention sees on average. */
  keys: number;
}

/** f32 operations in a second at best. */
export function peakFlops({ multiprocessors, clock_hz, lanes }: GpuModel): number {
  return 2 * multiprocessors * clock_hz * lanes;
}

/** Threads of a workgroup, from the kernel's text. */
export function threadsOf(text: string): number {
  const [, size] = /@workgroup_size\((.+?)\)/.exec(text)!;
  return size!.split(",").reduce((product, factor) => product * numberOf(text, factor.trim()), 1);
}

function numberOf(text: string, name: string): number {
  if (/^\d+u?$/.test(name)) return parseInt(name);
  return parseInt(new RegExp(`^const ${name} = (\\d+)u;`, "m").exec(text)![1]!);
}

/** The part of a GPU's multiprocessors and latency that so many workgroups fill. */
export function fillOf(gpu: GpuModel, groups: number, threads: number): number {
  return Math.min(
    1,
    groups / gpu.multiprocessors,
    groups * threads / WARP / (gpu.multiprocessors * BUSY_WARPS),
  );
}

/** A product in tiles: what its workgroups do. */
export interface TiledWork {
  groups: number;
  threads: number;
  /** Steps of the loop in which a workgroup stages a tile of both operands and multiplies them. */
  rounds: number;
  vgprs: number;
  tile: { instructions: number; around: number };
}

/** Seconds of a product in tiles: rounds of all multiprocessors, the last of which may be partly empty. */
export function tiledSeconds(gpu: GpuModel, { groups, threads, rounds, vgprs, tile }: TiledWork): number {
  const schedulers = 4 * gpu.lanes / 128, warps = threads / WARP;
  const around = tile.around * AROUND_SHARE;
  const issue = (tile.instructions + around) * warps / schedulers;
  const alone = Math.max(issue, tile.instructions * ALONE_FACTOR + around) + ALONE_WAIT;
  const resident = Math.max(1, Math.min(MAX_RESIDENT, Math.floor(REGISTERS / (vgprs * threads))));
  const slots = gpu.multiprocessors * resident,
    full = Math.floor(groups / slots),
    rest = groups - full * slots;
  let cycles = full * rounds * issue * resident / ISSUE_SHARE;
  if (rest > 0) {
    cycles += rounds * Math.max(issue * ceilDiv(rest, gpu.multiprocessors) / ISSUE_SHARE, alone);
  }
  return cycles / gpu.clock_hz;
}

const bytes = (tensor: Tensor) => tensorBytes(tensor.shape, tensor.dtype);

/** A round of a product's workgroup, as {@link TiledWork} has it. */
interface Round extends Pick<TiledWork, "threads" | "vgprs" | "tile"> {
  /** Of the depth. */
  steps: number;
  lowRankRounds: (rank: number) => number;
}

/** Whether subgroups multiply matrices in a kernel. */
function hasMatrices({ name }: Pick<Launch["kernel"], "name">): boolean {
  return name.startsWith("matmul_") && name.endsWith("_matrices");
}

/** @throws {Error} For a product in tiles that the compiler found none in, and for matrices that the GPU does not have. */
function roundOf(gpu: GpuModel, { kernel }: Launch, statistics: StoredStatistics | null): Round {
  const text = kernelText(kernel);
  if (hasMatrices(kernel)) {
    const { lanes, matrix_lanes } = gpu;
    if (matrix_lanes === null) throw new Error(`Cannot estimate ${kernel.name}: ${gpu.name} has no matrices`);
    const { instructions, ...round } = matricesRound({ lanes, matrix_lanes }, matricesLayout(text));
    return { ...round, tile: { instructions, around: 0 } };
  }
  if (!statistics?.tile) throw new Error(`Cannot estimate ${kernel.name}: it has no tile`);
  const { vgprs, tile } = statistics, steps = TILE_DEPTH;
  return { steps, threads: threadsOf(text), vgprs, tile, lowRankRounds: (rank) => ceilDiv(rank, steps) };
}

/**
 * A product in tiles. Each chunk of the depth that a workgroup adds to y, or stores for `matmul_chunks`, is one more round
 * of waiting for memory; y is then written, and read where it is added to.
 */
function matmulSeconds(gpu: GpuModel, launch: Launch, statistics: StoredStatistics | null): number {
  const { params, operands, grid } = launch,
    { steps, lowRankRounds, ...round } = roundOf(gpu, launch, statistics);
  const { rows = 0, columns = 0, depth = 0, rank = 0, chunk_tiles = 0, walked = 1 } = params;
  const chunks = grid[2] * walked, walked_depth = Math.min(depth, chunk_tiles * walked * TILE_DEPTH);
  const rounds = ceilDiv(walked_depth, steps) + (grid[2] > 1 ? 0 : lowRankRounds(rank));
  const work = { ...round, groups: workgroups(launch), rounds };
  const ends = (walked - 1) * ALONE_WAIT / gpu.clock_hz;
  const weight = bytes(operands.values!) + (operands.scales ? bytes(operands.scales) : 0);
  const y = 4 * rows * columns, is_split = grid[2] > 1;
  // What a workgroup adds to y for a chunk it loads again for the next, from the cache.
  const moved = weight + y * (is_split ? chunks : 1), again = is_split ? 0 : 2 * y * (chunks - 1);
  const memory = moved / (WEIGHT_SHARE * gpu.bytes_per_second) +
    again / (CACHE_FACTOR * gpu.bytes_per_second);
  return Math.max(tiledSeconds(gpu, work) + ends, memory);
}

/** A product of segments: each chunk of each segment has workgroups of its own. Short chunks count by their part of the longest. */
function segmentsSeconds(gpu: GpuModel, launch: Launch, statistics: StoredStatistics | null): number {
  const { params, kernel, operands, grid: [rows, columns] } = launch;
  const { steps, lowRankRounds: _, ...round } = roundOf(gpu, launch, statistics);
  const starts = Object.entries(params).filter(([name]) => /^group\d/.test(name)).map(([, first]) => first);
  const rounds = starts.map((_, s) =>
    ceilDiv(Math.min(params.depth!, params[`chunk_tiles${s}`]! * TILE_DEPTH), steps)
  );
  const longest = Math.max(...rounds);
  const groups = starts.reduce((sum, first, s) => {
    return sum + rows * ((starts[s + 1] ?? columns) - first) * rounds[s]! / longest;
  }, 0);
  // The compiler counts the loads of every segment; a workgroup does those of x and of one.
  const around = round.tile.around * 3 / (starts.length + 1), tile = { ...round.tile, around };
  const work = { ...round, groups: Math.ceil(groups), rounds: longest, tile };
  const moved = kernel.inputs.concat(kernel.outputs).reduce((sum, name) => sum + bytes(operands[name]!), 0);
  return Math.max(tiledSeconds(gpu, work), moved / (WEIGHT_SHARE * gpu.bytes_per_second));
}

/**
 * A kernel that adds the sums of segments: it streams them, waits for each batch of chunks, first for those of u, and reads
 * the low-rank term's matrices for each row, or for each few, from the cache.
 */
function fusedSeconds(gpu: GpuModel, launch: Launch): number {
  const { params, operands, kernel, grid } = launch;
  const fill = fillOf(gpu, workgroups(launch), threadsOf(kernelText(kernel)));
  const chunks = Object.entries(params).filter(([name]) => /^(u_)?chunks/.test(name)).map(([, count]) =>
    count
  );
  const waits = 2 * (1 + ceilDiv(Math.max(...chunks) - 1, CHUNKS_BATCH)) * ALONE_WAIT / gpu.clock_hz;
  const streamed = ["sums", "residual", "y", "normed", "h", "q"].reduce((sum, name) => {
    return sum + (operands[name] ? bytes(operands[name]) : 0);
  }, 0);
  const cached = bytes(operands.lora!) * (kernel.name === "fused_rows" ? params.rows! : grid[1]);
  const seconds = streamed / (STREAM_SHARE * gpu.bytes_per_second) +
    cached / (CACHE_FACTOR * gpu.bytes_per_second);
  return waits + seconds / fill;
}

/** The second dispatch of a split product. */
function chunksSeconds(gpu: GpuModel, launch: Launch): number {
  const { count, chunks, addend } = launch.params, batches = 1 + ceilDiv(chunks! - 1, CHUNKS_BATCH);
  const moved = 4 * count! * (chunks! + 1 + (addend === 0 ? 0 : 1));
  return addingSeconds(gpu, launch, { batches, moved });
}

/**
 * The first step of a gradient of a LoRA factor: rounds as of a product in tiles, or p, which is read again for more ranks,
 * and the parts' sums.
 */
function gradientSeconds(gpu: GpuModel, launch: Launch, statistics: StoredStatistics): number {
  const { params, operands, grid: [, across, parts] } = launch;
  const { steps: _, lowRankRounds: __, ...round } = roundOf(gpu, launch, statistics);
  const [rows, columns] = operands.p!.shape as [number, number], rank = params.rank!;
  const rounds = params.part_rows! / splitGradient({ rows, columns, rank }).round_rows;
  const work = { ...round, groups: workgroups(launch), rounds };
  const moved = bytes(operands.p!) * (1 + (across - 1) / CACHE_FACTOR) + 4 * parts * columns * rank;
  const fill = fillOf(gpu, work.groups, work.threads);
  return Math.max(tiledSeconds(gpu, work), moved / (STREAM_SHARE * fill * gpu.bytes_per_second));
}

/** A second dispatch that adds sums: it streams, and waits for each batch of them. */
function addingSeconds(
  gpu: GpuModel,
  launch: Launch,
  { batches, moved }: { batches: number; moved: number },
): number {
  const fill = fillOf(gpu, workgroups(launch), threadsOf(kernelText(launch.kernel)));
  return batches * ALONE_WAIT / gpu.clock_hz + moved / (STREAM_SHARE * fill * gpu.bytes_per_second);
}

/** Products of a head's width for each pair of a query and a key, by pass. */
const PAIR_PRODUCTS: Readonly<Record<string, number>> = {
  attention_forward: 2,
  attention_backward_query: 3,
  attention_backward_key: 4,
};

function attentionSeconds(gpu: GpuModel, launch: Launch, { statistics, keys }: LaunchFacts): number {
  const { kernel, params, operands } = launch, [rows, heads, width] = operands.q!.shape as number[];
  const fill = fillOf(gpu, workgroups(launch), threadsOf(kernelText(kernel)));
  const tile = statistics?.tile;
  const share = tile
    ? ATTENTION_SHARE * (tile.fmas + tile.around_fmas) / (tile.instructions + tile.around)
    : PLAIN_SHARE;
  // One of the dispatches for the gradients of keys has out_rows of them; tiles of rows that share pages may be partly empty.
  const shared_rows = operands.tiles && operands.tiles.shape[0]! * SHARED_ROWS;
  const share_of_rows = (params.out_rows ?? shared_rows ?? rows!) / rows!;
  const flops = 2 * rows! * keys * heads! * width! * (PAIR_PRODUCTS[kernel.name] ?? 2) * share_of_rows;
  const compute = flops / (share * fill * peakFlops(gpu));
  if (!operands.k_pages) return compute;
  // A workgroup reads the keys and values of its rows' sequence once; several share a row's tokens.
  const read = launch.grid[0] * launch.grid[1] * keys * width! * 2 * bytesOf(operands.k_pages.dtype);
  return Math.max(compute, read / (PAGES_SHARE * fill * gpu.bytes_per_second));
}

/** Operands of which a kernel reads or writes only some rows or numbers, by the start of its name. */
const PICKED: Readonly<Record<string, readonly string[]>> = {
  embedding: ["values", "scales"],
  gather_rows: ["x"],
  scatter: ["x"],
  kv_: ["k_pages", "v_pages", "page_table"],
  rope: ["cosines", "sines"],
  sample_token: ["logits"],
  token_logprobs: ["logits"],
  advance: ["out"],
  attention_paged_splits: ["parts"],
};

/** The bytes that a kernel reads and writes. Of a picked operand it takes as many as its largest other one has. */
export function streamedBytes({ kernel, operands }: Pick<Launch, "kernel" | "operands">): number {
  const picked = Object.entries(PICKED).find(([start]) => kernel.name.startsWith(start))?.[1] ?? [];
  const names = [...kernel.inputs, ...kernel.outputs], sizes = names.map((name) => bytes(operands[name]!));
  const whole = sizes.filter((_, i) => !picked.includes(names[i]!)), largest = Math.max(...whole);
  return whole.reduce((sum, size) => sum + size, 0) + largest * (sizes.length - whole.length);
}

/** Seconds of one dispatch, without the gap before it. */
export function launchSeconds(gpu: GpuModel, launch: Launch, facts: LaunchFacts): number {
  const { kernel } = launch, { statistics } = facts;
  if (kernel.name === "matmul_chunks") return chunksSeconds(gpu, launch);
  if (kernel.name === "lora_gradient_reduce") {
    const { columns, rank, parts } = launch.params, moved = 4 * columns! * rank! * (parts! + 2);
    return addingSeconds(gpu, launch, { batches: ceilDiv(parts!, PARTS_BATCH), moved });
  }
  if (kernel.name === "lora_gradient_tiles" && statistics) return gradientSeconds(gpu, launch, statistics);
  if (kernel.name.startsWith("fused_")) return fusedSeconds(gpu, launch);
  if (kernel.name.startsWith("matmul_") && (statistics || hasMatrices(kernel))) {
    const secondsOf = kernel.name.startsWith("matmul_segments") ? segmentsSeconds : matmulSeconds;
    return secondsOf(gpu, launch, statistics);
  }
  if (/^attention_(?!delta|key_parts|paged_splits)/.test(kernel.name)) {
    return attentionSeconds(gpu, launch, facts);
  }
  const fill = fillOf(gpu, workgroups(launch), threadsOf(kernelText(kernel)));
  const products = 2 * multiplyAdds(launch) / (PLAIN_SHARE * fill * peakFlops(gpu));
  return Math.max(products, streamedBytes(launch) / (STREAM_SHARE * fill * gpu.bytes_per_second));
}

/** The estimate of a step. */
export interface StepEstimate {
  seconds: number;
  dispatches: number;
  /** Seconds by kind of work, the largest first; `gaps` is the time between dispatches. */
  parts: [kind: string, seconds: number][];
}

/** The kind of work that a dispatch belongs to. */
function kindOf({ kernel: { name }, params }: Launch): string {
  if (name === "matmul_chunks") return "sums of chunks";
  if (name.startsWith("fused_")) return "what follows segments";
  if (name.startsWith("matmul_segments")) return "nt matrices";
  if (/^matmul_n[tn]_f32_/.test(name) || name.startsWith("lora_gradient")) return "LoRA products";
  if (name.startsWith("matmul_")) {
    const size = Math.max(params.columns!, params.depth!);
    return `${name.slice(7, 9)} ${size > 100_000 ? "head" : "matrices"}`;
  }
  return name.startsWith("attention_") ? name.replace("_tiles", "") : "norms and others";
}

/** The time of a step's dispatches, one after the other. */
export function estimateStep(
  gpu: GpuModel,
  launches: readonly Launch[],
  factsOf: (launch: Launch) => LaunchFacts,
): StepEstimate {
  const parts = new Map<string, number>([["gaps", launches.length * gpu.gap_seconds]]);
  for (const launch of launches) {
    const kind = kindOf(launch);
    parts.set(kind, (parts.get(kind) ?? 0) + launchSeconds(gpu, launch, factsOf(launch)));
  }
  const sorted = [...parts].toSorted(([, a], [, b]) => b - a);
  const seconds = sorted.reduce((sum, [, part]) => sum + part, 0);
  return { seconds, dispatches: launches.length, parts: sorted };
}
