/** Keys and values on the device, in pages. The cache grows with the pages in use. */

import { ServiceError } from "../../core/errors.ts";
import { PAGE_TOKENS } from "../../core/kv_pages.ts";
import type { Recorder } from "../../kernels/recorder.ts";
import { ceilDiv } from "../../kernels/shape.ts";
import { type Allocator, type Tensor, tensorBytes } from "../../kernels/tensor.ts";
import type { ModelShape } from "../model/model_shape.ts";

export interface KvCacheOptions {
  /** The most pages. */
  pages: number;
  kv: "f32" | "f16";
}

/** The tensors of a layer, each `[pages, kv_heads, 32, head_width]`. */
export interface LayerPages {
  k_pages: Tensor;
  v_pages: Tensor;
}

/** The fewest pages of a cache: below this, memory is too little to matter. */
const MIN_PAGES = 64;

/**
 * On a GPU, bytes of tensors that larger ones have replaced, after which a growing cache waits for the device: a driver
 * frees a buffer only when the copy from it is done.
 */
export const UNFREED_BYTES = 32 << 20;

/** A tensor that can be freed by itself. */
interface Held {
  tensor: Tensor;
  scope: Allocator;
}

export class KvCache {
  /** Keys, then values, of each layer in turn; empty without pages. */
  #held: Held[] = [];
  #capacity = 0;

  constructor(
    readonly allocator: Allocator,
    readonly model: { recorder: Recorder; shape: ModelShape },
    readonly options: KvCacheOptions,
  ) {}

  /** The number of pages that there is memory for. */
  get capacity(): number {
    return this.#capacity;
  }

  layer(index: number): LayerPages {
    return { k_pages: this.#held[2 * index]!.tensor, v_pages: this.#held[2 * index + 1]!.tensor };
  }

  /**
   * Allocates all pages, and for a moment the tensor that {@link grow} has beside them; not the {@link UNFREED_BYTES} that a
   * device may still copy then. What pages hold is lost.
   */
  reserve(): void {
    this.free();
    const { pages } = this.options, before = this.#capacityFor(ceilDiv(pages, 2));
    for (let i = 0; i < this.#tensors; i++) this.#held.push(this.#create(pages));
    this.#capacity = pages;
    if (before < pages) this.#create(before).scope.destroy();
  }

  /**
   * Makes room for pages 0 to `count - 1`. The capacity is the smallest ⌈pages / 2ⁿ⌉ that suffices. What pages hold is
   * kept, also where the device has no more memory. Tensors grow one after another, so of only one of them, and of up to
   * {@link UNFREED_BYTES} that the device still copies, are the old bytes there besides the new ones.
   *
   * @throws {ServiceError} `out_of_memory`; `device_lost`.
   */
  async grow(count: number): Promise<void> {
    const capacity = this.#capacityFor(count), { recorder } = this.model, { device, facts } = recorder.gpu;
    let unfreed_bytes = 0;
    for (let i = 0; i < this.#tensors; i++) {
      if (!this.#isShort(i, capacity)) continue;
      device.pushErrorScope("out-of-memory");
      const held = this.#create(capacity);
      if (await device.popErrorScope()) {
        held.scope.destroy();
        throw new ServiceError(
          "out_of_memory",
          `Cannot hold ${count} pages of the key/value cache: the device has no more memory`,
          { component: "kv", pages: this.options.pages },
        );
      }
      unfreed_bytes += this.#put(i, held);
      // A software adapter has copied by now.
      if (facts.software || unfreed_bytes < UNFREED_BYTES) continue;
      await recorder.submitAndWait();
      unfreed_bytes = 0;
    }
    this.#capacity = Math.max(this.#capacity, capacity);
  }

  /** Frees all pages. */
  free(): void {
    if (this.#held.length === 0) return;
    for (const { scope } of this.#held) scope.destroy();
    this.#held = [];
    this.#capacity = 0;
    this.model.recorder.forgetAll();
  }

  get #tensors(): number {
    return 2 * this.model.shape.layers.length;
  }

  #capacityFor(count: number): number {
    let capacity = this.options.pages;
    while (ceilDiv(capacity, 2) >= Math.max(count, MIN_PAGES)) capacity = ceilDiv(capacity, 2);
    return capacity;
  }

  #isShort(index: number, capacity: number): boolean {
    const held = this.#held[index];
    return held === undefined || held.tensor.shape[0]! < capacity;
  }

  /** @returns The bytes of the tensor that is replaced. */
  #put(index: number, held: Held): number {
    const old = this.#held[index];
    this.#held[index] = held;
    if (!old) return 0;
    this.model.recorder.copy(old.tensor, held.tensor);
    old.scope.destroy();
    this.model.recorder.forgetAll();
    return tensorBytes(old.tensor.shape, old.tensor.dtype);
  }

  #create(capacity: number): Held {
    const scope = this.allocator.scope(), { kv_heads, head_width } = this.model.shape;
    return {
      tensor: scope.create("kv", [capacity, kv_heads, PAGE_TOKENS, head_width], this.options.kv),
      scope,
    };
  }
}
