// Gathers rows: a thread owns an item of a row. Words are copied as they are, so every type of 4 bytes will do.
//
//   y[i, c] = x[index[i], c], or 0 if index[i] is not a row of x
//
//   params  rows of x N, rows of y M, items of a row
//   x       [N, C]       in
//   index   [M] u32      in
//   y       [M, C]       out, overwritten
//
// Dispatch: ceil(M · items / 64) workgroups, wrapped into y. `word` is linked: u32 or vec4<u32>.

struct Params { source_rows: u32, rows: u32, items: u32 }

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<word>;
@group(0) @binding(2) var<storage, read> index: array<u32>;
@group(0) @binding(3) var<storage, read_write> y: array<word>;

@compute @workgroup_size(threads)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let at = id.x + id.y * groups.x * threads;
  let i = at / params.items;
  if i >= params.rows { return; }
  let source = index[i];
  if source < params.source_rows {
    y[at] = x[source * params.items + at % params.items];
  } else {
    y[at] = word();
  }
}
