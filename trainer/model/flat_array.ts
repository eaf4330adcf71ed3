/** A flat array of f32 on the device. It has several parts if the device cannot bind it in one piece. */

import { assert } from "../../core/errors.ts";
import type { Recorder } from "../../kernels/recorder.ts";
import { elementCount } from "../../kernels/shape.ts";
import { type Allocator, type Tensor, tensorBytes, view } from "../../kernels/tensor.ts";

/** A matrix in a flat array. */
export interface FlatMatrix {
  /** The index of its first element. */
  offset: number;
  shape: readonly [number, number];
}

/**
 * The lengths of the fewest parts of at most `most` elements. A part is longer only if it cannot be split.
 *
 * @param cuts The elements at which a part may start, ascending from 0.
 * @param elements The length of the array.
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

/** The array is the concatenation of its parts, and starts as zeros. */
export class FlatArray {
  /** `[length] f32` each. */
  readonly parts: readonly Tensor[];

  constructor(readonly allocator: Allocator, component: string, lengths: readonly number[]) {
    // A part that the device cannot bind is a single matrix: any other would have been split.
    const name = `${component} (one matrix)`;
    this.parts = lengths.map((length) => allocator.create(component, [length], "f32", name));
  }

  /** Its bytes on the device, and in the machine's memory once it is read. */
  get bytes(): number {
    return this.parts.reduce((sum, part) => sum + tensorBytes(part.shape, part.dtype), 0);
  }

  /** A view of a place. All of the place must be in one part. */
  view({ offset, shape }: FlatMatrix): Tensor {
    let first = 0;
    for (const part of this.parts) {
      const length = part.shape[0]!;
      if (offset < first + length) return view(part, shape, offset - first);
      first += length;
    }
    assert(false, `a place at ${offset} lies in an array of ${first} elements`);
  }

  /** Uploads all elements. @param values One for each element of the array. */
  write(values: Float32Array): void {
    let first = 0;
    for (const part of this.parts) {
      const length = part.shape[0]!;
      this.allocator.write(part, values.subarray(first, first + length));
      first += length;
    }
  }

  /** Submits the recorded work and reads the array. It reads part by part: staging has the size of the largest part. */
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

  /** Allocates for {@link read}, so that it allocates nothing itself. */
  reserveRead(recorder: Recorder): void {
    for (const part of this.parts) recorder.reserveReadback([part]);
  }
}
