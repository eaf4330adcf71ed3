/** Tensors in textures, for the kernels that read them there (`textures.ts`). */

import { elementCount } from "./shape.ts";
import { type Tensor, tensorBytes, writesOf } from "./tensor.ts";
import { ROW_TEXELS, textureBytes, type TextureFormat } from "./textures.ts";

/** Textures of what changes between its uses: more than a dispatch reads, so that what several read in turn stays. */
const POOL_TEXTURES = 12;

/** A texture, and the tensor whose bytes it has. */
export interface Mirror {
  /** Unique in the process. */
  readonly id: number;
  readonly texture: GPUTexture;
  readonly view: GPUTextureView;
  readonly texel_bytes: number;
  /** The bytes for which there is room. */
  readonly bytes: number;
  holds: { buffer: GPUBuffer; offset_bytes: number; bytes: number; writes: number } | null;
}

let next_mirror = 1;

/** A pool's texture is whose it was last. */
interface Pooled {
  mirror: Mirror;
  key: string;
}

/** The textures of a recorder. Those of frozen operands are their own; the others share a pool. */
export class Mirrors {
  readonly #kept = new WeakMap<GPUBuffer, Map<string, Mirror>>();
  /** By format, the least recently used first. */
  readonly #pools = new Map<GPUTextureFormat, Pooled[]>();
  /** Replaced by larger ones: since the last submit, so that a recorded dispatch may read them, and before it. */
  #retired: GPUTexture[] = [];
  #unused: GPUTexture[] = [];
  readonly #ids = new WeakMap<GPUBuffer, number>();
  #next_id = 1;

  constructor(readonly device: GPUDevice) {}

  /**
   * The texture for a tensor, which may hold another one until {@link refresh}.
   *
   * @param kept Whether the tensor seldom changes.
   */
  find(tensor: Tensor, format: TextureFormat, kept: boolean): Mirror {
    const bytes = tensorBytes(tensor.shape, tensor.dtype);
    return kept ? this.#findKept(tensor, bytes, format) : this.#findPooled(tensor, bytes, format);
  }

  #findKept({ buffer, offset_bytes }: Tensor, bytes: number, format: TextureFormat): Mirror {
    let own = this.#kept.get(buffer);
    if (!own) this.#kept.set(buffer, own = new Map());
    const key = `${offset_bytes}:${format.format}`;
    let mirror = own.get(key);
    if (!mirror || mirror.bytes < bytes) own.set(key, mirror = this.#create(bytes, format));
    return mirror;
  }

  #findPooled({ buffer, offset_bytes }: Tensor, bytes: number, format: TextureFormat): Mirror {
    let pool = this.#pools.get(format.format);
    if (!pool) this.#pools.set(format.format, pool = []);
    let id = this.#ids.get(buffer);
    if (id === undefined) this.#ids.set(buffer, id = this.#next_id++);
    const key = `${id}:${offset_bytes}`;
    const index = pool.findIndex((pooled) => pooled.key === key);
    const pooled = index >= 0
      ? pool.splice(index, 1)[0]!
      : pool.length < POOL_TEXTURES
      ? { mirror: this.#create(bytes, format), key }
      : pool.shift()!;
    if (pooled.mirror.bytes < bytes) {
      this.#retired.push(pooled.mirror.texture);
      pooled.mirror = this.#create(bytes, format);
    }
    pooled.key = key;
    pool.push(pooled);
    return pooled.mirror;
  }

  #create(bytes: number, { format, texel_bytes }: TextureFormat): Mirror {
    const texels = Math.max(1, Math.ceil(bytes / texel_bytes));
    const size = [Math.min(texels, ROW_TEXELS), Math.ceil(texels / ROW_TEXELS)];
    const usage = GPUTextureUsage.TEXTURE_BINDING | GPUTextureUsage.COPY_DST | GPUTextureUsage.STORAGE_BINDING;
    const texture = this.device.createTexture({ label: "mirror", size, format, usage });
    return { id: next_mirror++, texture, view: texture.createView(), texel_bytes, bytes: texels * texel_bytes, holds: null };
  }

  /** Frees the textures that had been replaced at the call before. It is called for each submit. */
  freeRetired(): void {
    for (const texture of this.#unused) texture.destroy();
    this.#unused = this.#retired;
    this.#retired = [];
  }

  destroy(): void {
    this.freeRetired();
    this.freeRetired();
    for (const pool of this.#pools.values()) { for (const { mirror } of pool) mirror.texture.destroy(); }
    this.#pools.clear();
  }
}

/** The fewest reads of a tensor's numbers that take longer than its copy does. */
const WORTH_READS = 8192;

/** Whether a tensor is read so often that its copy is worth the time. */
export function isWorthCopying({ shape }: Tensor, reads: number): boolean {
  return elementCount(shape) * reads >= WORTH_READS;
}

/** Whether a texture can hold a tensor. */
export function fitsTexture({ shape, dtype, offset_bytes }: Tensor, format: TextureFormat): boolean {
  return tensorBytes(shape, dtype) <= textureBytes(format) && offset_bytes % format.texel_bytes === 0;
}

/** Whether a texture has a tensor's present bytes. */
export function isFresh({ holds }: Mirror, { buffer, offset_bytes, shape, dtype }: Tensor): boolean {
  return holds !== null && holds.buffer === buffer && holds.offset_bytes === offset_bytes &&
    holds.bytes >= tensorBytes(shape, dtype) && holds.writes === writesOf(buffer);
}

/** Encodes the copy of a tensor into its texture, outside of a pass. */
export function refresh(encoder: GPUCommandEncoder, mirror: Mirror, tensor: Tensor): void {
  const { texture, texel_bytes } = mirror, { buffer, offset_bytes } = tensor;
  const bytes = tensorBytes(tensor.shape, tensor.dtype), texels = Math.floor(bytes / texel_bytes);
  const rows = Math.floor(texels / ROW_TEXELS), rest = texels % ROW_TEXELS;
  const bytesPerRow = ROW_TEXELS * texel_bytes;
  if (rows > 0) {
    const from = { buffer, offset: offset_bytes, bytesPerRow, rowsPerImage: rows };
    encoder.copyBufferToTexture(from, { texture }, [ROW_TEXELS, rows]);
  }
  if (rest > 0) {
    const from = { buffer, offset: offset_bytes + rows * bytesPerRow, bytesPerRow };
    encoder.copyBufferToTexture(from, { texture, origin: [0, rows] }, [rest, 1]);
  }
  markFresh(mirror, tensor);
}

/** Notes that a texture has a tensor's present bytes. */
export function markFresh(mirror: Mirror, { buffer, offset_bytes, shape, dtype }: Tensor): void {
  mirror.holds = { buffer, offset_bytes, bytes: tensorBytes(shape, dtype), writes: writesOf(buffer) };
}
