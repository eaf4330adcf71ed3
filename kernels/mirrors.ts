/** Tensors in textures, for the kernels that read them there (`textures.ts`). */

import { elementCount } from "./shape.ts";
import { followBuffer, type Tensor, tensorBytes, writesOf } from "./tensor.ts";
import { blockTexels, MOST_ROWS, ROW_TEXELS, textureBytes, type TextureFormat } from "./textures.ts";

/** A texture for a tensor, and which of its bytes it has. */
export interface Mirror {
  /** Unique in the process. */
  readonly id: number;
  readonly texture: GPUTexture;
  readonly view: GPUTextureView;
  readonly format: TextureFormat;
  /** The bytes for which there is room. */
  readonly bytes: number;
  holds: { bytes: number; writes: number } | null;
}

/** The textures of a buffer by offset and format. */
const mirrors = new WeakMap<GPUBuffer, Map<string, Mirror>>();

let next_id = 1;

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

/**
 * The texture for a tensor, made at the first call and destroyed with the tensor's buffer. If the tensor grows later, its
 * texture gets room for the rest of the buffer, so that this happens once.
 *
 * @param replaced Gets the one that is too small, which may be in commands that are not submitted yet.
 */
export function findMirror(
  { device, replaced }: { device: GPUDevice; replaced: GPUTexture[] },
  tensor: Tensor,
  format: TextureFormat,
): Mirror {
  const { buffer, offset_bytes } = tensor, bytes = tensorBytes(tensor.shape, tensor.dtype);
  const own = mirrors.get(buffer) ?? createMirrors(buffer);
  const key = `${offset_bytes}:${format.format}`, found = own.get(key);
  if (found && found.bytes >= bytes) return found;
  if (found) replaced.push(found.texture);
  const room = found ? Math.min(buffer.size - offset_bytes, textureBytes(format)) : bytes;
  const mirror = createMirror(device, Math.max(room, bytes), format);
  own.set(key, mirror);
  return mirror;
}

function createMirrors(buffer: GPUBuffer): Map<string, Mirror> {
  const own = new Map<string, Mirror>();
  mirrors.set(buffer, own);
  followBuffer(buffer, () => {
    for (const { texture } of own.values()) texture.destroy();
    mirrors.delete(buffer);
  });
  return own;
}

function createMirror(device: GPUDevice, bytes: number, format: TextureFormat): Mirror {
  const texels = Math.max(1, Math.ceil(bytes / format.texel_bytes));
  const rows = Math.ceil(texels / ROW_TEXELS), blocks = Math.ceil(rows / MOST_ROWS);
  const size = [rows === 1 ? texels : blocks * blockTexels(format), Math.min(rows, MOST_ROWS)];
  const usage = GPUTextureUsage.COPY_DST | GPUTextureUsage.STORAGE_BINDING;
  const texture = device.createTexture({ label: "mirror", size, format: format.format, usage });
  return {
    id: next_id++,
    texture,
    view: texture.createView(),
    format,
    bytes: texels * format.texel_bytes,
    holds: null,
  };
}

/** Whether a texture has its tensor's present bytes. */
export function isFresh({ holds }: Mirror, { buffer, shape, dtype }: Tensor): boolean {
  return holds !== null && holds.bytes >= tensorBytes(shape, dtype) && holds.writes === writesOf(buffer);
}

/** Encodes the copy of a tensor into its texture, outside of a pass. */
export function refresh(encoder: GPUCommandEncoder, mirror: Mirror, tensor: Tensor): void {
  const { texture, format } = mirror, { buffer, offset_bytes, shape, dtype } = tensor;
  const texels = Math.floor(tensorBytes(shape, dtype) / format.texel_bytes),
    bytesPerRow = ROW_TEXELS * format.texel_bytes;
  const copy = (row: number, size: [texels: number, rows: number]) => {
    const origin = [Math.floor(row / MOST_ROWS) * blockTexels(format), row % MOST_ROWS];
    const from = { buffer, offset: offset_bytes + row * bytesPerRow, bytesPerRow, rowsPerImage: size[1] };
    encoder.copyBufferToTexture(from, { texture, origin }, size);
  };
  const rows = Math.floor(texels / ROW_TEXELS), rest = texels % ROW_TEXELS;
  for (let row = 0; row < rows; row += MOST_ROWS) copy(row, [ROW_TEXELS, Math.min(MOST_ROWS, rows - row)]);
  if (rest > 0) copy(rows, [rest, 1]);
  markFresh(mirror, tensor);
}

/** Notes that a texture has its tensor's present bytes. */
export function markFresh(mirror: Mirror, { buffer, shape, dtype }: Tensor): void {
  mirror.holds = { bytes: tensorBytes(shape, dtype), writes: writesOf(buffer) };
}
