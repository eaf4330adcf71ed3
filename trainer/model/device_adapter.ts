/** A low-rank adapter on the device: one flat array of parameters, with views of its matrices. */

import { LORA_TARGETS, type LoraTarget } from "../../core/lora_targets.ts";
import { Rng, rngKey } from "../../core/random.ts";
import { elementCount, roundUp } from "../../kernels/shape.ts";
import { type Allocator, type Tensor, view } from "../../kernels/tensor.ts";
import type { LoraShape } from "../engine/protocol.ts";
import { loraKey, type LoraPair, type LoraTensors } from "../formats/lora.ts";
import { linearShape, type ModelShape } from "./model_shape.ts";

/** Projections that read one input: their A matrices lie one behind the other, so one product gives all of A·x. */
export const INPUT_GROUPS = [
  ["q_proj", "k_proj", "v_proj"],
  ["o_proj"],
  ["gate_proj", "up_proj"],
  ["down_proj"],
] as const satisfies readonly (readonly LoraTarget[])[];

/** Parts of the flat array start at multiples of this many elements: views are bound at 256 bytes. */
const ALIGNMENT = 64;

interface Place {
  offset: number;
  shape: readonly [number, number];
}

/** Where the matrices of a shape lie in the flat array. Ranks are padded with zeros to a multiple of 4. */
export interface AdapterLayout {
  lora: LoraShape;
  /** The rank on the device. */
  padded_rank: number;
  elements: number;
  /** Without padding. */
  parameters: number;
  /** By layer and input group: `[targets · padded_rank, in]`; null where no target of the group is trained. */
  lora_a: (Place | null)[][];
  /** By layer and target: A `[padded_rank, in]`, B `[out, padded_rank]`, and A's place among the group's. */
  pairs: Partial<Record<LoraTarget, { a: Place; b: Place; column: number }>>[];
}

export function adapterLayout(model: ModelShape, lora: LoraShape): AdapterLayout {
  const padded_rank = roundUp(lora.rank, 4);
  const layout: AdapterLayout = { lora, padded_rank, elements: 0, parameters: 0, lora_a: [], pairs: [] };
  const place = (shape: readonly [number, number]): Place => {
    const offset = layout.elements;
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
        const a: Place = { offset: group_a.offset + column * in_width, shape: [padded_rank, in_width] };
        pairs[target] = { a, b: place([out_width, padded_rank]), column };
        layout.parameters += lora.rank * (in_width + out_width);
      });
      return group_a;
    }));
    layout.pairs.push(pairs);
  }
  return layout;
}

/** An adapter's parameters and, once it has been trained, its gradient and moments. */
export class DeviceAdapter {
  readonly params: Tensor;
  version = 0;
  #training: { gradient: Tensor; m: Tensor; v: Tensor } | null = null;
  /** Optimiser steps so far. */
  step = 0;

  readonly allocator: Allocator;

  constructor(allocator: Allocator, readonly layout: AdapterLayout) {
    this.allocator = allocator.scope();
    this.params = this.allocator.create("adapters", [layout.elements]);
  }

  /** alpha / rank */
  get scale(): number {
    return this.layout.lora.alpha / this.layout.lora.rank;
  }

  /** Gradient and moments; zeros at first. */
  get training(): { gradient: Tensor; m: Tensor; v: Tensor } {
    return this.#training ??= {
      gradient: this.allocator.create("optimizer", [this.layout.elements]),
      m: this.allocator.create("optimizer", [this.layout.elements]),
      v: this.allocator.create("optimizer", [this.layout.elements]),
    };
  }

  /** Both moments, as a checkpoint reads them back. */
  get moments(): [m: Tensor, v: Tensor] {
    return [this.training.m, this.training.v];
  }

  get isTrained(): boolean {
    return this.#training !== null;
  }

  free(): void {
    this.allocator.destroy();
  }

  write(values: Float32Array): void {
    this.allocator.write(this.params, values);
  }
}

/** The view of a place in the adapter's parameters, or in an array of the same layout such as its gradient. */
export function placeView(flat: Tensor, place: Place): Tensor {
  return view(flat, place.shape, place.offset);
}

/**
 * A fresh adapter's parameters: A normal with deviation 1/√in, B zero, so that the adapter changes nothing at first.
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

/** The flat array of an adapter read from a file. */
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

/** The inverse of {@link packAdapter}, without the padding; also for gradients and moments. */
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
  visit: (key: string, pair: { a: Place; b: Place }) => void,
): void {
  layout.pairs.forEach((pairs, layer) => {
    for (const target of LORA_TARGETS) {
      const pair = pairs[target];
      if (pair) visit(loraKey(layer, target), pair);
    }
  });
}
