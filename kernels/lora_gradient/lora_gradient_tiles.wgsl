// Gradient of a LoRA factor for GPUs, first of two steps: a workgroup owns 128 columns, up to 64 ranks and one part of the
// rows. Its 4 teams of 32 threads are GROUPS groups of ranks by SLICES slices of the rows. A thread keeps the sums of four
// columns and 4 · RANKS4 ranks. It reads p itself, since only other groups need the same numbers, and the cache has them; q
// passes through workgroup memory, ROUND rows of each slice at a time. At the end the slices are added.
//
//   partials[s, r, c] = Σ_m p[m, c] · q[m, q_offset + r]        over the rows m of part s
//
// The sum has one order for given shapes: a slice adds its rows in order, then the slices are added in order, and then the
// parts (lora_gradient_reduce.wgsl).
//
//   params    rows M, rows of a part (a multiple of ROUND · SLICES), vec4s of a row of p, columns of a row of q, q_offset,
//             rank R; the last three are multiples of 4
//   p         [M, P] f32        in
//   q         [M, stride] f32   in, of which R columns from q_offset on
//   partials  [S, R, P] f32     out, overwritten
//
// Dispatch: ceil(P / 128) × ceil(R / (4 · RANKS4 · GROUPS)) × S workgroups; a template for unroll.ts.

struct Params { rows: u32, part_rows: u32, columns: u32, q_stride: u32, q_offset: u32, rank: u32 }

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> p: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> q: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> partials: array<vec4<f32>>;

// Nested arrays: the row of a round is a constant, so naga clamps one index for all of a round.
var<workgroup> q_tile: array<array<array<vec4<f32>, {RANKS4*GROUPS}>, {ROUND}>, {SLICES}>;
// Sums of four ranks, on their way to the threads that add the slices.
var<workgroup> passing: array<array<array<vec4<f32>, 32>, 4>, 4>;

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let x = thread % 32u;
  let team = thread / 32u;
  let slice = team / {GROUPS}u;
  let ranks = team % {GROUPS}u * {RANKS4}u;
  let column = group.x * 32u + x;
  let all_ranks = params.rank / 4u;
  let first_rank = group.y * {RANKS4*GROUPS}u;
  let start = group.z * params.part_rows;
  let end = min(start + params.part_rows, params.rows);
  // Columns after the last are not stored. Rows after it are read as the last one.
  let load_column = min(column, params.columns - 1u);
  let last = (params.rows - 1u) * params.columns + load_column;
  #for r RANKS
  var sum{r} = vec4<f32>();
  #end
  // What the thread stages. Ranks after the last are read as it, and not stored.
  let staged_row = thread / {RANKS4*GROUPS}u;
  let staged_rank = thread % {RANKS4*GROUPS}u;
  let q_stride = params.q_stride / 4u;
  let q_first = params.q_offset / 4u + min(first_rank + staged_rank, all_ranks - 1u);
  var staged = q[min(start + staged_row, params.rows - 1u) * q_stride + q_first];
  for (var row = start; row < end; row += {ROUND*SLICES}u) {
    let first = (row + slice * {ROUND}u) * params.columns + load_column;
    #for i ROUND
    let p{i} = p[min(first + {i}u * params.columns, last)];
    #end
    workgroupBarrier();
    if thread < {ROUND*SLICES*RANKS4*GROUPS}u {
      // Rows after the part add 0.
      q_tile[staged_row / {ROUND}u][staged_row % {ROUND}u][staged_rank] = select(vec4<f32>(), staged, row + staged_row < end);
    }
    workgroupBarrier();
    // What the next round needs is on its way during this one.
    staged = q[min(row + {ROUND*SLICES}u + staged_row, params.rows - 1u) * q_stride + q_first];
    #for i ROUND
    #for r RANKS4
    let q{i}_{r} = q_tile[slice][{i}][ranks + {r}u];
    #for k 4
    sum{4*r+k} = fma(p{i}, vec4<f32>(q{i}_{r}[{k}]), sum{4*r+k});
    #end
    #end
    #end
  }
  // Four ranks of each group at a time. A thread adds one of them for its columns.
  #for r RANKS4
  workgroupBarrier();
  #for k 4
  passing[team][{k}][x] = sum{4*r+k};
  #end
  workgroupBarrier();
  #for g GROUPS
  {
    var total = passing[{g}][team][x];
    #for s OTHER_SLICES
    total += passing[{g+s*GROUPS+GROUPS}][team][x];
    #end
    let rank = first_rank + {g*RANKS4+r}u;
    if column < params.columns && rank < all_ranks {
      partials[(group.z * params.rank + 4u * rank + team) * params.columns + column] = total;
    }
  }
  #end
  #end
}
