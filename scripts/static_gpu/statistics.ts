/** What the compiler says of a kernel: its statistics, and counts of its assembly. */

/** Of one kernel on one GPU. Registers, latency and throughput are of one wave; latency and throughput are in cycles. */
export interface Statistics {
  vgprs: number;
  sgprs: number;
  /** Vector and scalar registers that lie in memory instead. */
  spills: number;
  /** Workgroup memory. */
  lds_bytes: number;
  /** Waves that fit on a SIMD unit. */
  waves: number;
  instructions: number;
  code_bytes: number;
  /** The estimated cycles from the start to the end of a wave. Loops count with a fixed number of rounds. */
  latency: number;
  /** The estimated cycles in which a wave keeps the busiest unit from others. */
  inverse_throughput: number;
  /** The innermost tile of products; null for a kernel without one. */
  tile: TileCounts | null;
}

/** The straight piece of code with the most fused multiply-adds (FMAs), and the loop around it. */
export interface TileCounts {
  instructions: number;
  fmas: number;
  /** Instructions of the loop outside of the piece, all branches counted. */
  around: number;
  /** FMAs among these. */
  around_fmas: number;
}

/** A piece of code with fewer FMAs is no tile. */
const MIN_TILE_FMAS = 64;

/** Statistics by their names in RADV. */
const NAMES = {
  vgprs: "VGPRs",
  sgprs: "SGPRs",
  lds_bytes: "LDS size",
  waves: "Subgroups per SIMD",
  instructions: "Instructions",
  code_bytes: "Code size",
  latency: "Latency",
  inverse_throughput: "Inverse Throughput",
} as const;

/** Reads what vulkan_shim.c writes of a pipeline. @throws {Error} When a statistic is missing. */
export function parsePipeline(text: string): Statistics {
  const found = new Map(
    [...text.matchAll(/^statistic (.+) = (\d+)$/gm)].map(([, name, value]) => [name!, Number(value)]),
  );
  const of = (name: string) => {
    const value = found.get(name);
    if (value === undefined) throw new Error(`Cannot read the statistics of a kernel: there is no ${name}`);
    return value;
  };
  const named = Object.entries(NAMES).map(([field, name]) => [field, of(name)]);
  return {
    ...Object.fromEntries(named) as Record<keyof typeof NAMES, number>,
    spills: of("Spilled VGPRs") + of("Spilled SGPRs"),
    tile: countTile(text),
  };
}

/** A basic block of the assembly. */
interface Block {
  label: number;
  instructions: number;
  fmas: number;
  /** The labels of the blocks that its branches name. */
  targets: number[];
}

function readBlocks(text: string): Block[] {
  const blocks: Block[] = [];
  for (const line of text.split("\n")) {
    const label = /^BB(\d+):/.exec(line);
    if (label) blocks.push({ label: Number(label[1]), instructions: 0, fmas: 0, targets: [] });
    const block = blocks.at(-1), code = /^\t([^;]+)/.exec(line)?.[1];
    if (!block || !code) continue;
    block.instructions++;
    block.fmas += countFmas(code);
    const target = /^s_(?:c?branch)\w* ?BB(\d+)/.exec(code);
    if (target) block.targets.push(Number(target[1]));
  }
  return blocks;
}

/** The FMAs of an instruction for each lane: two in packed instructions, in dot products of pairs and in dual issue. */
function countFmas(code: string): number {
  return code.split("::").reduce((sum, part) => {
    const name = part.trim().split(/\s/)[0]!;
    if (/^v_pk_fma|^v_pk_fmac|^v_dot2/.test(name)) return sum + 2;
    return /^v_(dual_)?fma/.test(name) ? sum + 1 : sum;
  }, 0);
}

function countTile(text: string): TileCounts | null {
  const blocks = readBlocks(text);
  const tile = blocks.reduce<Block | null>((best, each) => each.fmas > (best?.fmas ?? 0) ? each : best, null);
  if (!tile || tile.fmas < MIN_TILE_FMAS) return null;
  const loop = loopAround(blocks, tile);
  const sumOf = (count: "instructions" | "fmas") => loop.reduce((sum, block) => sum + block[count], 0);
  return {
    instructions: tile.instructions,
    fmas: tile.fmas,
    around: sumOf("instructions") - tile.instructions,
    around_fmas: sumOf("fmas") - tile.fmas,
  };
}

/** The blocks of the smallest loop with a block: from the target of a branch back to the block with the branch. */
function loopAround(blocks: readonly Block[], inner: Block): Block[] {
  const loops = blocks.flatMap((block) =>
    block.targets.filter((target) => target <= inner.label && block.label >= inner.label)
      .map((target) => blocks.filter(({ label }) => label >= target && label <= block.label))
  );
  return loops.toSorted((a, b) => a.length - b.length)[0] ?? [inner];
}
