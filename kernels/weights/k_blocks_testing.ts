/**
 * Encoders of Q4_K, Q5_K and Q6_K, in the layout that their files describe. Scales come from the extremes of each part,
 * without the search for better ones with which ggml's quantisers refine them: the blocks are valid and a little less
 * precise.
 */

const VALUES = 256;
const Q6_PART = 16, Q6_PARTS = VALUES / Q6_PART;
const Q6_LOW_BYTES = 128, Q6_QUANT_BYTES = 192, Q6_BLOCK_BYTES = Q6_QUANT_BYTES + Q6_PARTS + 2;

/** The nearest integer in a range. */
const clampRound = (value: number, low: number, high: number) =>
  Math.max(low, Math.min(high, Math.round(value)));

/** `x / by`, 0 for 0 / 0. */
const quotient = (x: number, by: number) => by === 0 ? 0 : x / by;

/** A half-precision number, rounded up so that what is divided by it stays within its range. */
function halfAbove(value: number): number {
  const [half] = Float16Array.of(value);
  return half! >= value ? half! : Float16Array.of(value * (1 + 2 ** -10) + 2 ** -24)[0]!;
}

/** The scale and the minimum of a part of a block, whose integers are q: `x ≈ scale·q − min`. */
interface PartScale {
  scale: number;
  min: number;
}

/** Blocks of 4 or 5 bits: head, highest bits when there are 5, low bits. */
export function encodeK(values: Float32Array, bits: 4 | 5): Uint8Array<ArrayBuffer> {
  const largest = 2 ** bits - 1, low_at = bits === 5 ? 48 : 16, block_bytes = low_at + 128;
  const bytes = new Uint8Array(values.length / VALUES * block_bytes), view = new DataView(bytes.buffer);
  for (let from = 0, to = 0; from < values.length; from += VALUES, to += block_bytes) {
    const parts = Array.from({ length: 8 }, (_, p): PartScale => {
      const part = values.subarray(from + 32 * p, from + 32 * (p + 1)), min = Math.max(0, -Math.min(...part));
      return { scale: (Math.max(0, ...part) + min) / largest, min };
    });
    const d = halfAbove(Math.max(...parts.map(({ scale }) => scale)) / 63);
    const d_min = halfAbove(Math.max(...parts.map(({ min }) => min)) / 63);
    view.setFloat16(to, d, true);
    view.setFloat16(to + 2, d_min, true);
    parts.forEach((part, p) => {
      const scale = clampRound(quotient(part.scale, d), 0, 63),
        min = clampRound(quotient(part.min, d_min), 0, 63);
      packFactors(bytes.subarray(to + 4, to + 16), p, [scale, min]);
      for (let i = 0; i < 32; i++) {
        const q = clampRound(quotient(values[from + 32 * p + i]! + d_min * min, d * scale), 0, largest);
        bytes[to + low_at + 32 * (p >> 1) + i]! |= (q & 15) << 4 * (p & 1);
        if (bits === 5) bytes[to + 16 + i]! |= q >> 4 << p;
      }
    });
  }
  return bytes;
}

/** Writes 6 bits of a part's scale and min into a block's 12 bytes of zeros, in any order of parts. */
function packFactors(packed: Uint8Array, part: number, [scale, min]: readonly [number, number]): void {
  if (part < 4) {
    packed[part]! |= scale;
    packed[part + 4]! |= min;
  } else {
    packed[part + 4]! |= (scale & 15) | (min & 15) << 4;
    packed[part - 4]! |= scale >> 4 << 6;
    packed[part]! |= min >> 4 << 6;
  }
}

/** Blocks of 16 parts with a signed scale each. */
export function encodeQ6K(values: Float32Array): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(values.length / VALUES * Q6_BLOCK_BYTES), view = new DataView(bytes.buffer);
  for (let from = 0, to = 0; from < values.length; from += VALUES, to += Q6_BLOCK_BYTES) {
    const scales = Array.from({ length: Q6_PARTS }, (_, p) => {
      const part = values.subarray(from + Q6_PART * p, from + Q6_PART * (p + 1));
      return part.reduce((m, v) => Math.abs(v) > Math.abs(m) ? v : m, 0) / -32;
    });
    const d = halfAbove(Math.max(...scales.map(Math.abs)) / 127);
    view.setFloat16(to + Q6_QUANT_BYTES + Q6_PARTS, d, true);
    for (let e = 0; e < VALUES; e++) {
      const factor = clampRound(quotient(scales[e >> 4]!, d), -127, 127);
      view.setInt8(to + Q6_QUANT_BYTES + (e >> 4), factor);
      const q = clampRound(quotient(values[from + e]!, d * factor), -32, 31) + 32;
      const half = e >> 7, quarter = e >> 5 & 3, i = e & 31;
      bytes[to + 64 * half + 32 * (quarter & 1) + i]! |= (q & 15) << 4 * (quarter >> 1);
      bytes[to + Q6_LOW_BYTES + 32 * half + i]! |= q >> 4 << 2 * quarter;
    }
  }
  return bytes;
}
