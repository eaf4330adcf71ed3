/** The f64 reference of attention over packed rows, written for clarity. Arrays are row-major. */

export interface AttentionInput {
  heads: number;
  kv_heads: number;
  width: number;
  scale: number;
  /** A row sees only this many of its last keys; null or absent: all of them. */
  window?: number | null;
  /** A score s becomes `cap · tanh(s / cap)`; null or absent: no cap. */
  soft_cap?: number | null;
  q: Float64Array;
  k: Float64Array;
  v: Float64Array;
  /** `[N, 4]`: prefix_start, prefix_length, own_start, subtree_end. */
  rows: ArrayLike<number>;
}

const dot = (a: Float64Array, b: Float64Array) => a.reduce((sum, x, d) => sum + x * b[d]!, 0);

/** The keys that row i may see, in order. */
function visibleKeys(rows: ArrayLike<number>, i: number, window: number | null = null): number[] {
  const [prefix_start, prefix_length, own_start] = [rows[4 * i]!, rows[4 * i + 1]!, rows[4 * i + 2]!];
  const keys: number[] = [];
  for (let j = prefix_start; j < prefix_start + prefix_length; j++) keys.push(j);
  for (let j = own_start; j <= i; j++) keys.push(j);
  return window === null ? keys : keys.slice(-window);
}

/** A key's position, its probability, and the derivative of its capped score by the score. */
interface SeenKey {
  key: number;
  p: number;
  slope: number;
}

/** Calls `visit` for each head of each row with its part of q, its position, and the keys that it sees. */
function eachHead(
  { heads, kv_heads, width, scale, window, soft_cap, q, k, rows }: AttentionInput,
  visit: (at: number, lse: number, seen: SeenKey[]) => void,
): void {
  for (let i = 0; i < rows.length / 4; i++) {
    for (let h = 0; h < heads; h++) {
      const at = i * heads + h, kv = Math.floor(h * kv_heads / heads);
      const query = q.subarray(at * width, (at + 1) * width);
      const seen = visibleKeys(rows, i, window).map((j) => {
        const key = j * kv_heads + kv;
        const score = scale * dot(query, k.subarray(key * width, (key + 1) * width));
        if (!soft_cap) return { key, s: score, slope: 1 };
        const t = Math.tanh(score / soft_cap);
        return { key, s: soft_cap * t, slope: 1 - t ** 2 };
      });
      const top = Math.max(...seen.map(({ s }) => s));
      const lse = top + Math.log(seen.reduce((sum, { s }) => sum + Math.exp(s - top), 0));
      visit(at, lse, seen.map(({ key, s, slope }) => ({ key, p: Math.exp(s - lse), slope })));
    }
  }
}

export function attentionReference(input: AttentionInput): { o: Float64Array; lse: Float64Array } {
  const { width, q, v } = input;
  const o = new Float64Array(q.length), lse = new Float64Array(q.length / width);
  eachHead(input, (at, denominator, seen) => {
    lse[at] = denominator;
    for (const { key, p } of seen) {
      for (let d = 0; d < width; d++) o[at * width + d]! += p * v[key * width + d]!;
    }
  });
  return { o, lse };
}

export function attentionBackwardReference(
  input: AttentionInput,
  d_o: Float64Array,
): { d_q: Float64Array; d_k: Float64Array; d_v: Float64Array } {
  const { width, scale, q, k, v } = input;
  const d_q = new Float64Array(q.length), d_k = new Float64Array(k.length), d_v = new Float64Array(v.length);
  eachHead(input, (at, _lse, seen) => {
    const g = d_o.subarray(at * width, (at + 1) * width);
    const d_p = seen.map(({ key }) => dot(g, v.subarray(key * width, (key + 1) * width)));
    const delta = seen.reduce((sum, { p }, n) => sum + p * d_p[n]!, 0);
    seen.forEach(({ key, p, slope }, n) => {
      const d_s = p * (d_p[n]! - delta) * slope * scale;
      for (let d = 0; d < width; d++) {
        d_v[key * width + d]! += p * g[d]!;
        d_q[at * width + d]! += d_s * k[key * width + d]!;
        d_k[key * width + d]! += d_s * q[at * width + d]!;
      }
    });
  });
  return { d_q, d_k, d_v };
}
