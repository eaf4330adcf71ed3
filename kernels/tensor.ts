/** Tensors on the device and the bytes that they take. */

import { assert, ServiceError } from "../core/errors.ts";
import { elementCount, roundUp } from "./shape.ts";

/** How a tensor's elements lie in its buffer. `f16` and `bf16` are packed, 2 to a 32-bit word, `i8` 4. */
export type DType = "f32" | "u32" | "f16" | "bf16" | "i8";

const BYTES: Record<DType, number> = { f32: 4, u32: 4, f16: 2, bf16: 2, i8: 1 };

/** A row-major array in a part of a buffer. */
export interface Tensor {
  readonly buffer: GPUBuffer;
  readonly offset_bytes: number;
  readonly shape: readonly number[];
  readonly dtype: DType;
}

/** Bytes of an element. */
export function bytesOf(dtype: DType): number {
  return BYTES[dtype];
}

/** Bytes of a tensor, rounded up to whole words. */
export function tensorBytes(shape: readonly number[], dtype: DType): number {
  return roundUp(elementCount(shape) * BYTES[dtype], 4);
}

/** A part of a tensor's buffer under another shape, `offset` elements behind the tensor's start. */
export function view(tensor: Tensor, shape: readonly number[], offset = 0): Tensor {
  const offset_bytes = tensor.offset_bytes + offset * BYTES[tensor.dtype];
  const end = offset_bytes + tensorBytes(shape, tensor.dtype);
  assert(
    end <= tensor.offset_bytes + tensorBytes(tensor.shape, tensor.dtype),
    "a view ends inside its tensor",
  );
  return { ...tensor, shape, offset_bytes };
}

/**
 * Creates tensors and counts their bytes by component ("weights", "kv", "activations", …).
 * A buffer holds one tensor: WebGPU cannot bind two parts of one buffer for reading and writing in one dispatch.
 */
export class Allocator {
  readonly bytes: Record<string, number> = {};
  readonly #live = new Map<GPUBuffer, { component: string; size: number }>();

  constructor(readonly device: GPUDevice) {}

  /**
   * A tensor of zeros.
   *
   * @throws {ServiceError} `out_of_memory` when it is larger than the device binds.
   */
  create(component: string, shape: readonly number[], dtype: DType = "f32"): Tensor {
    const size = Math.max(4, tensorBytes(shape, dtype));
    const limit = Math.min(this.device.limits.maxStorageBufferBindingSize, this.device.limits.maxBufferSize);
    if (size > limit) {
      throw new ServiceError(
        "out_of_memory",
        `Cannot allocate ${size} bytes for ${component}: the device binds at most ${limit}`,
        { component, size_bytes: size, limit_bytes: limit },
      );
    }
    const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
    const buffer = this.device.createBuffer({ label: component, size, usage });
    this.#live.set(buffer, { component, size });
    this.bytes[component] = (this.bytes[component] ?? 0) + size;
    return { buffer, offset_bytes: 0, shape, dtype };
  }

  /** A tensor with these values, uploaded in pieces so that the driver's staging memory stays small. */
  upload(
    component: string,
    shape: readonly number[],
    values: Float32Array | Uint32Array | Uint8Array,
  ): Tensor {
    const dtype = values instanceof Float32Array ? "f32" : values instanceof Uint32Array ? "u32" : "i8";
    const tensor = this.create(component, shape, dtype);
    this.write(tensor, values);
    return tensor;
  }

  /** Writes `values` over a tensor's first bytes. */
  write(tensor: Tensor, values: ArrayBufferView, offset_bytes = 0): void {
    const piece_bytes = 16 << 20;
    const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
    for (let at = 0; at < bytes.length; at += piece_bytes) {
      const piece = bytes.subarray(at, Math.min(bytes.length, at + piece_bytes));
      const whole = piece.length % 4 === 0 ? piece : new Uint8Array(roundUp(piece.length, 4));
      if (whole !== piece) whole.set(piece);
      this.device.queue.writeBuffer(
        tensor.buffer,
        tensor.offset_bytes + offset_bytes + at,
        whole as BufferSource,
      );
      if (bytes.length > piece_bytes) this.device.queue.submit([]);
    }
  }

  /** Frees a tensor's buffer. */
  free(tensor: Tensor): void {
    const live = this.#live.get(tensor.buffer);
    assert(live !== undefined, "a tensor is freed once, by its allocator");
    this.bytes[live.component]! -= live.size;
    this.#live.delete(tensor.buffer);
    tensor.buffer.destroy();
  }

  /** Frees everything. */
  destroy(): void {
    for (const buffer of this.#live.keys()) buffer.destroy();
    this.#live.clear();
  }
}
