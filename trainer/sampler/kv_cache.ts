/** Keys and values on the device, in pages. The cache grows with the pages in use. */

import { ServiceError } from "../../core/errors.ts";
import { PAGE_TOKENS } from "../../core/kv_pages.ts";
import type { Recorder } from "../../kernels/recorder.ts";
import { ceilDiv } from "../../kernels/shape.ts";
import type { Allocator, Tensor } from "../../kernels/tensor.ts";
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
   * Makes room for pages 0 to `count - 1`. The capacity is the smallest ⌈pages / 2ⁿ⌉ that suffices. What pages hold is
   * kept. Tensors grow one after another, so the old and the new bytes of only one of them are there at once.
   */
  reserve(count: number): void {
    const capacity = this.#capacityFor(count);
    for (let i = 0; i < this.#tensors; i++) {
      if (this.#isShort(i, capacity)) this.#put(i, this.#create(capacity));
    }
    this.#capacity = Math.max(this.#capacity, capacity);
  }

  /**
   * Like {@link reserve}, for a device that may have no more memory: the pages that were there keep what they hold.
   *
   * @throws {ServiceError} `out_of_memory`.
   */
  async grow(count: number): Promise<void> {
    const capacity = this.#capacityFor(count), { device } = this.model.recorder.gpu;
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
      this.#put(i, held);
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

  #put(index: number, held: Held): void {
    const old = this.#held[index];
    if (old) {
      this.model.recorder.copy(old.tensor, held.tensor);
      old.scope.destroy();
      this.model.recorder.forgetAll();
    }
    this.#held[index] = held;
  }

  #create(capacity: number): Held {
    const scope = this.allocator.scope(), { kv_heads, head_width } = this.model.shape;
    return {
      tensor: scope.create("kv", [capacity, kv_heads, PAGE_TOKENS, head_width], this.options.kv),
      scope,
    };
  }
}
