/** How many multiprocessors of a GPU the products of a step fill. */

import { type Kernel, kernelText } from "../../kernels/kernel.ts";
import { ceilDiv, elementCount } from "../../kernels/shape.ts";
import type { HeaderName } from "../make_header.ts";
import { countedModel, type Launch, samplingLaunches, trainingLaunches, workgroups } from "./launches.ts";

/** The multiprocessors of the GPU that grids are compared with, an H100. */
export const MULTIPROCESSORS = 132;

/** The models, and the rows of decode steps and tokens of training steps. */
const MODELS: readonly HeaderName[] = ["0.5b", "1.5b", "8b"];
const DECODE_ROWS = [1, 8, 32, 64, 256], TRAINING_TOKENS = [1024, 4096, 8192];

/** Tokens of a prompt; of the grids, only that of a decode's attention depends on it: by one more for each 256 tokens. Sequences that fill a prefill step of 512 rows. */
const PROMPT = 4, PREFILL_SEQUENCES = 128;

/** Dispatches of one kernel with one shape and one grid. */
export interface ProductGrid {
  /** The name of the form. */
  form: string;
  /** Such as `64 × 896, depth 4864`. */
  shape: string;
  grid: readonly number[];
  workgroups: number;
  /** Dispatches of a step. */
  count: number;
  /** The multiply-adds of all of them as a share of those of the step's products with matrices; 0 for attention. */
  share: number;
}

/** The grids of one step. */
export interface StepGrids {
  /** Such as `0.5b, decode of 64 rows`. */
  step: string;
  products: ProductGrid[];
}

/** Whether a dispatch multiplies matrices. */
export function isProduct({ name }: Pick<Kernel, "name">): boolean {
  const product =
    /^(matmul_n|matmul_segments|lora_gradient_tiles|attention_(?!delta|key_parts|paged_splits))/;
  return product.test(name);
}

/** The multiply-adds of a product with a matrix; 0 for other kernels, whose work does not follow from their shapes. */
export function multiplyAdds({ kernel, params, operands }: Launch): number {
  const { rows = 0, columns = 0, depth = 0, rank = 0 } = params;
  if (kernel.name.startsWith("matmul_n")) return rows * columns * (depth + rank);
  if (kernel.name.startsWith("matmul_segments")) return rows * depth * segmentColumns(params);
  return kernel.name === "lora_gradient_tiles" ? elementCount(operands.p!.shape) * rank : 0;
}

/** The columns of all segments of a product. */
function segmentColumns(params: Launch["params"]): number {
  return Object.entries(params).reduce(
    (sum, [name, count]) => name.startsWith("columns") ? sum + count : sum,
    0,
  );
}

function shapeOf({ kernel, params, operands }: Launch): string {
  const { rows, columns, depth, rank, heads } = params;
  if (kernel.name.startsWith("matmul_n")) {
    return `${rows} × ${columns}, depth ${depth}${rank! > 0 ? ` + ${rank}` : ""}`;
  }
  if (kernel.name.startsWith("matmul_segments")) return `${rows} × ${segmentColumns(params)}, depth ${depth}`;
  return heads ? `${rows} rows, ${heads} heads` : `${operands.p!.shape[1]} × ${rank}, depth ${rows}`;
}

/** Groups the products of a step, those with the fewest workgroups first. */
export function productGrids(launches: readonly Launch[], names: ReadonlyMap<string, string>): ProductGrid[] {
  const groups = new Map<string, ProductGrid>();
  const total = launches.reduce((sum, launch) => sum + multiplyAdds(launch), 0);
  for (const launch of launches) {
    if (!isProduct(launch.kernel)) continue;
    const form = names.get(kernelText(launch.kernel)) ?? `${launch.kernel.name}, no form`;
    const shape = shapeOf(launch), key = `${form}|${shape}|${launch.grid}`;
    let group = groups.get(key);
    if (!group) {
      const fresh = { form, shape, grid: launch.grid, workgroups: workgroups(launch), count: 0, share: 0 };
      groups.set(key, group = fresh);
    }
    group.count++;
    group.share += multiplyAdds(launch) / total;
  }
  return [...groups.values()].toSorted((a, b) => a.workgroups - b.workgroups);
}

/** The launches of every step that is looked at, by its name. */
export async function eachStep(
  visit: (step: string, launches: Launch[]) => void,
): Promise<void> {
  for (const name of MODELS) {
    const counted = await countedModel(name, "f16");
    for (const rows of DECODE_ROWS) {
      const { decode } = await samplingLaunches(counted, { sequences: rows, prompt: PROMPT });
      visit(`${name}, decode of ${rows} rows`, decode);
    }
    const { prefill } = await samplingLaunches(counted, { sequences: PREFILL_SEQUENCES, prompt: PROMPT });
    visit(`${name}, prefill of ${PREFILL_SEQUENCES * PROMPT} rows`, prefill);
    for (const tokens of TRAINING_TOKENS) {
      visit(`${name}, training of ${tokens} tokens`, await trainingLaunches(counted, tokens));
    }
  }
}

/** The grids of all steps. */
export async function allGrids(names: ReadonlyMap<string, string>): Promise<StepGrids[]> {
  const steps: StepGrids[] = [];
  await eachStep((step, launches) => steps.push({ step, products: productGrids(launches, names) }));
  return steps;
}

/** Dispatches of products of a step that leave multiprocessors without work. */
export function unfilledDispatches({ products }: StepGrids): number {
  return products.reduce((sum, { workgroups, count }) => workgroups < MULTIPROCESSORS ? sum + count : sum, 0);
}

/** Such as `14 of 132`, or `2.2 rounds` of all multiprocessors. */
export function filling(workgroups: number): string {
  return workgroups < MULTIPROCESSORS
    ? `${workgroups} of ${MULTIPROCESSORS}`
    : `${(workgroups / MULTIPROCESSORS).toFixed(1)} of ${ceilDiv(workgroups, MULTIPROCESSORS)} rounds`;
}
