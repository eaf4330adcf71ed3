// Adds the parts of the gradients of keys and values that attention_backward_key_tiles.wgsl computes, in order: a workgroup
// has the keys of one tile, with all key/value heads.
//
//   d_k[j] = Σ_p parts_k[p, j − first_key]        p: parts that begin before the last row that sees the tile; d_v likewise
//
//   params  rows N, first_key of the dispatch, out_rows M, part rows, size K · D / 4
//   rows             [N, 4]           u32   in
//   parts_k, parts_v [parts, M, K, D] f32   in
//   d_k, d_v         [N, K, D]        f32   out, the dispatch's keys are overwritten
//
// Dispatch: ceil(M / ROWS) × ceil(ROWS · size / threads) workgroups. `ROWS` and `threads` are linked.

struct Params { rows: u32, first_key: u32, out_rows: u32, part: u32, size: u32 }

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> rows: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> parts_k: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> parts_v: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> d_k: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read_write> d_v: array<vec4<f32>>;

@compute @workgroup_size(threads)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let first = params.first_key + group.x * ROWS;
  var end = 0u;
  for (var x = 0u; x < ROWS; x++) { end = max(end, rows[min(first + x, params.rows - 1u)].w); }
  end = min(end, params.rows);
  let x = group.y * threads + thread;
  let key = first + x / params.size;
  if x >= ROWS * params.size || key >= params.rows { return; }
  var at = (key - params.first_key) * params.size + x % params.size;
  let to = key * params.size + x % params.size;
  var k = parts_k[at];
  var v = parts_v[at];
  for (var start = first + params.part; start < end; start += params.part) {
    at += params.out_rows * params.size;
    k += parts_k[at];
    v += parts_v[at];
  }
  d_k[to] = k;
  d_v[to] = v;
}
