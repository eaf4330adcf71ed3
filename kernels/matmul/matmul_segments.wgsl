// What the products of one x with several weights in one dispatch share, for GPUs and few rows. Each chunk of a weight's
// depth has workgroups of its own, which store its sum; the kernel that reads the sums adds them in order, as
// matmul_chunks.wgsl would.
//
//   sums_s[k, n, c] = Σ_d x[n, d] · W_s[c, d]     for the steps d of chunk k of segment s
//
//   params     rows N, depth; of segment s: columns C_s, tiles of columns, tiles of a chunk's depth; its first workgroup
//              along y; the first vector of its sums
//   weights    [C_s, depth]    in, read by `weight_at_s`
//   x          [N, depth] f32  in
//   sums       [K_s, N, C_s] f32 for each segment   out, overwritten
//
// `first`, the binding after all weights, and `to_operand` are linked.
// Dispatch: ceil(N / BLOCK_ROWS) × Σ_s tiles · chunks workgroups; a template for unroll.ts.

struct Params {
  rows: u32, depth: u32,
  #for s SEGMENTS
  columns{s}: u32, tiles{s}: u32, chunk_tiles{s}: u32, group{s}: u32, place{s}: u32,
  #end
}

// A segment as a workgroup sees it.
struct Segment { index: u32, columns: u32, tiles: u32, chunk_tiles: u32, group: u32, place: u32 }

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(first) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(first + 1u) var<storage, read_write> sums: array<vec4<f32>>;

fn segment_of(group: u32) -> Segment {
  var segment = Segment();
  #for s SEGMENTS
  if group >= params.group{s} {
    segment = Segment({s}u, params.columns{s}, params.tiles{s}, params.chunk_tiles{s}, params.group{s}, params.place{s});
  }
  #end
  return segment;
}
