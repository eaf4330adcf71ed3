/** The kernels of products: one for each kind, layout, and what it has besides x and the weight. */

import type { Gpu } from "../device.ts";
import { defineKernel, type Grid, type Kernel, type TextureUse } from "../kernel.ts";
import { fitsTexture } from "../mirrors.ts";
import { HALVES } from "../textures.ts";
import { WEIGHT_TYPES } from "../weights/table.ts";
import type { WeightPart } from "../weights/weight.ts";
import type { WeightType } from "../weights/weight_type.ts";
import type { MatmulLayout } from "./matmul_layout.ts";
import { matricesParts } from "./matmul_matrices.ts";
import { type MatmulKind, matmulParts, type ProductTerms } from "./matmul_text.ts";

/** What is added to a product when it is stored; both together too. */
export const Addend = { RESIDUAL: 1, Y: 2 } as const;

const kernels = new Map<string, Kernel>();

const NO_TERMS: ProductTerms = {
  ...{ has_lora: false, a_rank: 0, addend: 0, continued: false, has_rest: false, reads_halves: false },
  ...{ norm_eps: null, twin: null, is_scaled: false },
};

/**
 * The kernel of a kind and a layout; made once. Whether chunks have workgroups of their own does not change it, and the terms
 * only in the form `lanes`, but for scaled rows.
 */
export function matmulKernel(
  kind: MatmulKind,
  layout: MatmulLayout,
  terms: ProductTerms = NO_TERMS,
): Kernel {
  const { is_scaled } = terms, own_terms = layout.form === "lanes" ? terms : is_scaled;
  const key = JSON.stringify([kind, { ...layout, split: undefined }, own_terms]);
  let kernel = kernels.get(key);
  if (!kernel) {
    const { twin, norm_eps } = terms, planes = WEIGHT_TYPES[kind.weight].planes.map(({ name }) => name);
    const second = twin === null ? [] : planes.map(ofSecond);
    kernel = defineKernel({
      name: `matmul_${nameOf(kind, terms)}_${kind.weight}_${kind.compute}_${layout.form}`,
      wgsl: layout.form === "matrices"
        ? matricesParts(kind, layout, is_scaled)
        : matmulParts(kind, layout, terms),
      params: {
        rows: "u32",
        columns: "u32",
        depth: "u32",
        rank: "u32",
        u_stride: "u32",
        u_column: "u32",
        lora_scale: "f32",
        addend: "u32",
        x_stride: "u32",
        x_column: "u32",
        y_stride: "u32",
        y_column: "u32",
        continued: "u32",
        chunk_tiles: "u32",
        walked: "u32",
      },
      inputs: [
        ...[...planes, ...second, ...norm_eps === null ? [] : ["gamma"]],
        ...["x", "u", "lora", is_scaled ? "row_scales" : twin === null ? "residual" : ofSecond("lora")],
      ],
      outputs: ["y", ...twin === "both" ? [ofSecond("y")] : []],
      ...(layout.form === "lanes" &&
        { textures: texturesOf(planes, terms) }),
    }) as Kernel;
    kernels.set(key, kernel);
  }
  return kernel;
}

/** What tells a kernel of a product from others: its orientation, or what it does with two weights. */
function nameOf({ orientation }: MatmulKind, { twin, is_scaled }: ProductTerms): string {
  if (is_scaled) return `${orientation}_scaled`;
  if (twin === null) return orientation;
  return twin === "both" ? "twin" : "twin_gated";
}

/** The operand of a second weight that does what this one does for the first. */
export function ofSecond(name: string): string {
  return `${name}_1`;
}

/** What software adapters read through textures. Each tile of columns reads x and u. */
function texturesOf(
  planes: readonly string[],
  { has_lora, a_rank, addend, continued, reads_halves, norm_eps, twin }: ProductTerms,
): Record<string, TextureUse> {
  const matrices = Object.fromEntries(planes.map((name) => [name, "kept" as TextureUse]));
  if (reads_halves) matrices.values = "halves";
  if (has_lora) matrices.lora = "kept";
  const second = twin === null ? [] : Object.entries(matrices).map(([name, use]) => [ofSecond(name), use]);
  const tiles = ([, columns = 1]: Grid) => columns, reads_y = (addend & Addend.Y) !== 0 || continued;
  return {
    ...{ ...matrices, ...Object.fromEntries(second), x: tiles },
    ...(norm_eps !== null && { gamma: "kept" }),
    ...(has_lora && { u: a_rank > 0 ? "kept" : tiles }),
    ...((addend & Addend.RESIDUAL) !== 0 && { residual: 1 }),
    ...(reads_y && { y: 1 }),
  };
}

/** Whether a product reads a weight's values from a texture of halves. */
export function readsHalves(
  { facts }: Pick<Gpu, "facts">,
  layout: MatmulLayout,
  { type, values }: WeightPart,
): boolean {
  const { halves_wgsl }: WeightType = WEIGHT_TYPES[type],
    has_rows = layout.form === "lanes" && layout.owns === "rows";
  return has_rows && facts.software && halves_wgsl !== undefined && fitsTexture(values, HALVES);
}

/** See {@link ProductTerms.has_rest}. */
export function hasRest(layout: MatmulLayout, depth: number): boolean {
  return layout.form === "lanes" && layout.owns === "columns" && depth % (4 * layout.lanes) !== 0;
}
