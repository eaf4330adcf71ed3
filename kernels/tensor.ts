/** Tensors on the device, and their memory. */

import { assert, ServiceError } from "../core/errors.ts";
import { elementCount, roundUp } from "./shape.ts";

/** The type of a tensor's elements in its buffer. `f16` and `bf16` are packed, 2 in a 32-bit word, `i8` 4. */
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

/** Bytes of a tensor, rounded up to complete words. */
export function tensorBytes(shape: readonly number[], dtype: DType): number {
  return roundUp(elementCount(shape) * BYTES[dtype], 4);
}

/** A part of a tensor's buffer with another shape, `offset` elements after the tensor's start. */
export function view(tensor: Tensor, shape: readonly number[], offset = 0): Tensor {
  const offset_bytes = tensor.offset_bytes + offset * BYTES[tensor.dtype];
  const end = offset_bytes + tensorBytes(shape, tensor.dtype);
  assert(
    end <= tensor.offset_bytes + tensorBytes(tensor.shape, tensor.dtype),
    "a view ends inside its tensor",
  );
  return { ...tensor, shape, offset_bytes };
}

/** How often each buffer was written. */
const writes = new WeakMap<GPUBuffer, number>();

/** Counts a write, in the order in which the device does them. Recorders of GPUs count none: they have no copies. */
export function countWrite(buffer: GPUBuffer): void {
  writes.set(buffer, writesOf(buffer) + 1);
}

/** How often a buffer was written: a copy of it is stale when this has changed. */
export function writesOf(buffer: GPUBuffer): number {
  return writes.get(buffer) ?? 0;
}

/** What is freed with a buffer. */
const followers = new WeakMap<GPUBuffer, () => void>();

/** Calls `free` when an allocator destroys a buffer. A buffer has one follower. */
export function followBuffer(buffer: GPUBuffer, free: () => void): void {
  assert(!followers.has(buffer), "a buffer without a follower");
  followers.set(buffer, free);
}

/** The part of a device that an {@link Allocator} uses: a real device, or one that only counts (`counting_gpu.ts`). */
export interface BufferDevice {
  readonly limits: Pick<GPUSupportedLimits, "maxStorageBufferBindingSize" | "maxBufferSize">;
  createBuffer(descriptor: GPUBufferDescriptor): GPUBuffer;
  readonly queue: Pick<GPUQueue, "writeBuffer" | "submit">;
}

/** A tensor above the device's binding limit. */
export interface UnbindableTensor {
  name: string;
  component: string;
  size_bytes: number;
  limit_bytes: number;
}

export interface AllocatorOptions {
  /** Receives a tensor above the device's binding limit, which is then counted anyway; absent: an error is thrown. */
  refuse?: (tensor: UnbindableTensor) => void;
}

/**
 * Allocates all buffers of a device and counts their bytes by component ("weights", "kv", "activations", …). A buffer
 * holds one tensor: WebGPU cannot bind two parts of one buffer for reading and writing in one dispatch. Destroying a
 * {@link scope} frees what was allocated in it.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 *
 * import { assumedGpu } from "./assumed_gpu.ts";
 * import { countingGpu } from "./counting_gpu.ts";
 *
 * // A device that only counts. On a real one, `openGpu` gives the device.
 * const allocator = new Allocator(countingGpu(assumedGpu()).device);
 * const weights = allocator.create("weights", [64, 32], "f16"), scope = allocator.scope();
 * scope.create("activations", [8, 32]);
 * assert.deepEqual(allocator.bytes, { weights: 4096, activations: 1024 });
 * scope.destroy();
 * assert.equal(allocator.bytes.activations, 0);
 * assert.equal(view(weights, [32], 32).offset_bytes, 64);
 * ```
 */
export class Allocator {
  /** By component, including scopes. */
  readonly bytes: Record<string, number> = {};
  #total = 0;
  #peak: { total: number; bytes: Readonly<Record<string, number>> } = { total: 0, bytes: {} };
  /** The largest tensor that the device binds. */
  readonly limit_bytes: number;
  readonly #parent: Allocator | null;
  readonly #scopes = new Set<Allocator>();
  readonly #buffers: { buffer: GPUBuffer; component: string; size: number }[] = [];

  constructor(readonly device: BufferDevice, readonly options: AllocatorOptions = {}, parent?: Allocator) {
    const { maxStorageBufferBindingSize, maxBufferSize } = device.limits;
    this.limit_bytes = Math.min(maxStorageBufferBindingSize, maxBufferSize);
    this.#parent = parent ?? null;
  }

  /** An allocator whose {@link destroy} frees what was allocated in it; its bytes also count here. */
  scope(): Allocator {
    const scope = new Allocator(this.device, this.options, this);
    this.#scopes.add(scope);
    return scope;
  }

  /**
   * A tensor of zeros.
   *
   * @param name The tensor's name in errors.
   * @throws {ServiceError} `out_of_memory` when it exceeds the device's binding limit.
   */
  create(component: string, shape: readonly number[], dtype: DType = "f32", name = component): Tensor {
    const size = Math.max(4, tensorBytes(shape, dtype)), { limit_bytes } = this;
    if (size > limit_bytes) {
      const unbindable: UnbindableTensor = { name, component, size_bytes: size, limit_bytes };
      if (!this.options.refuse) {
        const message = `Cannot allocate ${size} bytes for ${name}: the device binds at most ${limit_bytes}`;
        throw new ServiceError("out_of_memory", message, { ...unbindable });
      }
      this.options.refuse(unbindable);
    }
    const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
    return { buffer: this.createBuffer(component, size, usage), offset_bytes: 0, shape, dtype };
  }

  /** A buffer with another use than a tensor's. */
  createBuffer(component: string, size: number, usage: GPUBufferUsageFlags): GPUBuffer {
    const buffer = this.device.createBuffer({ label: component, size, usage });
    this.#buffers.push({ buffer, component, size });
    this.#count(component, size);
    return buffer;
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

  /** Overwrites a tensor's first bytes with `values`. */
  write(tensor: Tensor, values: ArrayBufferView, offset_bytes = 0): void {
    const piece_bytes = 16 << 20;
    countWrite(tensor.buffer);
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

  /** Frees everything that was allocated here and in scopes. */
  destroy(): void {
    for (const scope of this.#scopes) scope.destroy();
    for (const { buffer, component, size } of this.#buffers.splice(0)) {
      buffer.destroy();
      followers.get(buffer)?.();
      this.#count(component, -size);
    }
    if (this.#parent) this.#parent.#scopes.delete(this);
  }

  /** The bytes by component when there were the most of them in all. */
  get peak(): Readonly<Record<string, number>> {
    return this.#peak.bytes;
  }

  #count(component: string, size: number): void {
    this.bytes[component] = (this.bytes[component] ?? 0) + size;
    this.#total += size;
    if (this.#total > this.#peak.total) this.#peak = { total: this.#total, bytes: { ...this.bytes } };
    if (this.#parent) this.#parent.#count(component, size);
  }
}
