/** A LoRA adapter on the device: a flat array of parameters, with views of its matrices. */

import { LORA_TARGETS, type LoraTarget } from "../../core/lora_targets.ts";
import { Rng, rngKey } from "../../core/random.ts";
import { elementCount, roundUp } from "../../kernels/shape.ts";
import { type Allocator, bytesOf } from "../../kernels/tensor.ts";
import type { LoraShape } from "../protocol/protocol.ts";
import { loraKey, type LoraPair, type LoraTensors } from "../formats/lora.ts";
import { FlatArray, type FlatMatrix, partLengths } from "./flat_array.ts";
import { linearShape, type ModelShape } from "./model_shape.ts";

/** Projections with the same input. Their A matrices are adjacent, so that one product computes all x · Aᵀ. */
export const INPUT_GROUPS = [
  ["q_proj", "k_proj", "v_proj"],
  ["o_proj"],
  ["gate_proj", "up_proj"],
  ["down_proj"],
] as const satisfies readonly (readonly LoraTarget[])[];

/** Matrices start at multiples of this many f32 elements, because bindings start at multiples of 256 bytes. */
const ALIGNMENT = 64;

/** The offsets of all matrices in the flat array. The rank is padded with zeros to a multiple of 4. */
export interface AdapterLayout {
  lora: LoraShape;
  /** The rank on the device, a multiple of 4. */
  padded_rank: number;
  /** The length of the flat array, with padding. */
  elements: number;
  /** The number of parameters, without padding. */
  parameters: number;
  /** The elements at which the flat array may be split: the start of each tensor that is bound in one piece. */
  cuts: number[];
  /** The A matrices by layer and input group, `[targets · padded_rank, in]`; null for a group without targets. */
  lora_a: (FlatMatrix | null)[][];
  /**
   * By layer and target: A `[padded_rank, in]`, B `[out, padded_rank]`, and the first column of the target in the
   * group's x · Aᵀ.
   */
  pairs: Partial<Record<LoraTarget, { a: FlatMatrix; b: FlatMatrix; column: number }>>[];
}

/** Ranks are padded to a multiple of this. Arrays of a pass without an adapter have this rank. */
export const LEAST_PADDED_RANK = 4;

/** Places the matrices of an adapter of this shape in a flat array. */
export function adapterLayout(model: ModelShape, lora: LoraShape): AdapterLayout {
  const padded_rank = roundUp(lora.rank, LEAST_PADDED_RANK);
  const layout: AdapterLayout = {
    ...{ lora, padded_rank, elements: 0, parameters: 0, cuts: [], lora_a: [], pairs: [] },
  };
  const place = (shape: readonly [number, number]): FlatMatrix => {
    const offset = layout.elements;
    layout.cuts.push(offset);
    layout.elements = roundUp(offset + elementCount(shape), ALIGNMENT);
    return { offset, shape };
  };
  for (let layer = 0; layer < model.layers.length; layer++) {
    const pairs: AdapterLayout["pairs"][number] = {};
    layout.lora_a.push(INPUT_GROUPS.map((group) => {
      const targets = group.filter((target) => lora.targets.includes(target));
      if (targets.length === 0) return null;
      const { in_width } = linearShape(model, targets[0]!);
      const group_a = place([targets.length * padded_rank, in_width]);
      targets.forEach((target, i) => {
        const { out_width } = linearShape(model, target);
        const column = i * padded_rank;
        const a: FlatMatrix = { offset: group_a.offset + column * in_width, shape: [padded_rank, in_width] };
        pairs[target] = { a, b: place([out_width, padded_rank]), column };
        layout.parameters += lora.rank * (in_width + out_width);
      });
      return group_a;
    }));
    layout.pairs.push(pairs);
  }
  return layout;
}

/** The gradient and AdamW's moments, split like the parameters. */
export interface AdapterTraining {
  gradient: FlatArray;
  m: FlatArray;
  v: FlatArray;
}

/** An adapter's parameters. The gradient and the moments are allocated at first use. */
export class DeviceAdapter {
  readonly params: FlatArray;
  version = 0;
  #training: AdapterTraining | null = null;
  /** The number of optimiser steps so far. */
  step = 0;

  readonly allocator: Allocator;

  constructor(allocator: Allocator, readonly layout: AdapterLayout) {
    this.allocator = allocator.scope();
    this.params = this.#create("adapters");
  }

  /** alpha / rank */
  get scale(): number {
    return this.layout.lora.alpha / this.layout.lora.rank;
  }

  /** The gradient and the moments, allocated with zeros at first use. */
  get training(): AdapterTraining {
    return this.#training ??= {
      gradient: this.#create("optimizer"),
      m: this.#create("optimizer"),
      v: this.#create("optimizer"),
    };
  }

  free(): void {
    this.allocator.destroy();
  }

  /** Uploads the parameters. @param values `[elements]`, with padding. */
  write(values: Float32Array): void {
    this.params.write(values);
  }

  #create(component: string): FlatArray {
    const { cuts, elements } = this.layout, most = Math.floor(this.allocator.limit_bytes / bytesOf("f32"));
    return new FlatArray(this.allocator, component, partLengths(cuts, elements, most));
  }
}

/**
 * The parameters of a new adapter: A is normal with standard deviation 1/√in, B is 0. So B·A is 0, and the outputs of
 * the model do not change.
 *
 * @source Hu et al., "LoRA" (2021), section 4.1.
 */
export function initialParameters(layout: AdapterLayout, seed: number): Float32Array<ArrayBuffer> {
  const flat = new Float32Array(layout.elements);
  layout.pairs.forEach((pairs, layer) => {
    for (const target of LORA_TARGETS) {
      const pair = pairs[target];
      if (!pair) continue;
      const in_width = pair.a.shape[1], deviation = 1 / Math.sqrt(in_width);
      const rng = new Rng(rngKey(seed, "lora", layer, target));
      for (let i = 0; i < layout.lora.rank * in_width; i++) {
        flat[pair.a.offset + i] = deviation * rng.normal();
      }
    }
  });
  return flat;
}

/** The flat array `[elements]` of an adapter from a file, with padding. */
export function packAdapter(layout: AdapterLayout, tensors: LoraTensors): Float32Array<ArrayBuffer> {
  const flat = new Float32Array(layout.elements);
  forEachPair(layout, (key, { a, b }) => {
    const pair = tensors.tensors.get(key)!;
    flat.set(pair.a, a.offset);
    for (let row = 0; row < pair.out; row++) {
      flat.set(
        pair.b.subarray(row * tensors.rank, (row + 1) * tensors.rank),
        b.offset + row * layout.padded_rank,
      );
    }
  });
  return flat;
}

/** The inverse of {@link packAdapter}, without padding. It also takes gradients and moments. */
export function unpackAdapter(
  layout: AdapterLayout,
  model: ModelShape,
  flat: Float32Array,
): LoraTensors {
  const { rank, alpha, targets } = layout.lora;
  const tensors = new Map<string, LoraPair>();
  forEachPair(layout, (key, { a, b }) => {
    const in_width = a.shape[1], out_width = b.shape[0];
    const pair: LoraPair = {
      a: flat.slice(a.offset, a.offset + rank * in_width),
      b: new Float32Array(out_width * rank),
      in: in_width,
      out: out_width,
    };
    for (let row = 0; row < out_width; row++) {
      const at = b.offset + row * layout.padded_rank;
      pair.b.set(flat.subarray(at, at + rank), row * rank);
    }
    tensors.set(key, pair);
  });
  return { architecture: model.architecture, rank, alpha, targets, layers: model.layers.length, tensors };
}

function forEachPair(
  layout: AdapterLayout,
  visit: (key: string, pair: { a: FlatMatrix; b: FlatMatrix }) => void,
): void {
  layout.pairs.forEach((pairs, layer) => {
    for (const target of LORA_TARGETS) {
      const pair = pairs[target];
      if (pair) visit(loraKey(layer, target), pair);
    }
  });
}
