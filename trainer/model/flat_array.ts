/** A flat array of f32 on the device, in parts where the device cannot bind it whole. */

import { assert } from "../../core/errors.ts";
import type { Recorder } from "../../kernels/recorder.ts";
import { elementCount } from "../../kernels/shape.ts";
import { type Allocator, type Tensor, view } from "../../kernels/tensor.ts";

/** A matrix in a flat array. */
export interface Place {
  /** Elements before it. */
  offset: number;
  shape: readonly [number, number];
}

/**
 * The lengths of an array's parts: as few as possible, none above `most` unless a single stretch is longer.
 *
 * @param cuts Where the array may be cut, ascending from 0; a part begins at one of these elements.
 * @param elements The array's length.
 */
export function partLengths(cuts: readonly number[], elements: number, most: number): number[] {
  const lengths: number[] = [];
  let start = 0;
  for (const [i, cut] of cuts.entries()) {
    const end = cuts[i + 1] ?? elements;
    if (end - start <= most || cut === start) continue;
    lengths.push(cut - start);
    start = cut;
  }
  return [...lengths, elements - start];
}

/** Zeros at first. The parts follow each other. */
export class FlatArray {
  /** `[length] f32` each. */
  readonly parts: readonly Tensor[];

  constructor(readonly allocator: Allocator, component: string, lengths: readonly number[]) {
    this.parts = lengths.map((length) => allocator.create(component, [length]));
  }

  /** The view of a place, which lies in one part. */
  view({ offset, shape }: Place): Tensor {
    let first = 0;
    for (const part of this.parts) {
      const length = part.shape[0]!;
      if (offset < first + length) return view(part, shape, offset - first);
      first += length;
    }
    assert(false, `a place at ${offset} lies in an array of ${first} elements`);
  }

  /** @param values As many as the array has elements. */
  write(values: Float32Array): void {
    let first = 0;
    for (const part of this.parts) {
      const length = part.shape[0]!;
      this.allocator.write(part, values.subarray(first, first + length));
      first += length;
    }
  }

  /** Submits what was recorded and reads the array, a part at a time: the buffer for reading holds the largest part. */
  async read(recorder: Recorder): Promise<Float32Array<ArrayBuffer>> {
    const values = new Float32Array(this.parts.reduce((sum, { shape }) => sum + elementCount(shape), 0));
    let first = 0;
    for (const part of this.parts) {
      const [bytes] = await recorder.submitAndRead([part]);
      values.set(new Float32Array(bytes!), first);
      first += part.shape[0]!;
    }
    return values;
  }

  /** Makes the room that {@link read} takes. */
  reserveRead(recorder: Recorder): void {
    for (const part of this.parts) recorder.reserveReadback([part]);
  }
}
