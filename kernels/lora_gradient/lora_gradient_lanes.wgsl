// Gradient of a LoRA factor for software adapters: a subgroup owns {TILES} vec4s of columns per lane and {BLOCKS} ·
// {LANES} ranks, and iterates over all rows, so there is no barrier and the sum has one order. A lane loads its own
// columns of p and one rank of q; ranks reach the others by broadcast, since loads are what costs here. A round of the loop
// has {ROUND} rows, because each round also blends every sum with the mask of active lanes.
//
//   out[c, r] += alpha · Σ_m p[m, c] · q[m, q_offset + r]
//
//   params  rows M, vec4s of a row of p, columns of a row of q, q_offset, rank R, strides of out, alpha
//   p       [M, P] f32        in
//   q       [M, stride] f32   in, of which R columns from q_offset on
//   out     [P, R] or [R, P]  out, accumulated
//
// Dispatch: ceil(P/4 / ({TILES} · {LANES})) × ceil(R / ({BLOCKS} · {LANES})) workgroups of one subgroup.
// The text is a template: `#for` lines repeat, names in braces are numbers. The broadcasts of lanes are linked.

struct Params {
  rows: u32,
  columns: u32,
  q_stride: u32,
  q_offset: u32,
  rank: u32,
  column_stride: u32,
  rank_stride: u32,
  alpha: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> p: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> q: array<f32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;

fn add(column: u32, rank: u32, sum: vec4<f32>) {
  if column >= params.columns || rank >= params.rank { return; }
  let at = 4u * column * params.column_stride + rank * params.rank_stride;
  out[at] += params.alpha * sum.x;
  out[at + params.column_stride] += params.alpha * sum.y;
  out[at + 2u * params.column_stride] += params.alpha * sum.z;
  out[at + 3u * params.column_stride] += params.alpha * sum.w;
}

@compute @workgroup_size({LANES})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(subgroup_invocation_id) lane: u32) {
  #for t TILES
  let column{t} = (group.x * {TILES}u + {t}u) * {LANES}u + lane;
  let load{t} = min(column{t}, params.columns - 1u);
  #end
  hide_lanes(params.rows == 0xffffffffu);
  let first = group.y * {BLOCKS}u * {LANES}u;
  #for b BLOCKS
  let rank{b} = params.q_offset + min(first + {b}u * {LANES}u + lane, params.rank - 1u);
  #for l LANES
  #for t TILES
  var sum{b}_{l}_{t} = vec4<f32>();
  #end
  #end
  #end
  let columns = params.columns;
  let q_stride = params.q_stride;
  let rows = params.rows;
  for (var first_row = 0u; first_row < rows; first_row += {ROUND}u) {
    #for m ROUND
    {
      let row = min(first_row + {m}u, rows - 1u);
      #for t TILES
      let p{t} = p[row * columns + load{t}];
      #end
      #for b BLOCKS
      let q{b} = select(0.0, q[row * q_stride + rank{b}], first_row + {m}u < rows);
      #for l LANES
      {
        let q_l = broadcast_f32_{l}(q{b});
        #for t TILES
        sum{b}_{l}_{t} += p{t} * q_l;
        #end
      }
      #end
      #end
    }
    #end
  }
  #for b BLOCKS
  #for l LANES
  #for t TILES
  add(column{t}, first + {b}u * {LANES}u + {l}u, sum{b}_{l}_{t});
  #end
  #end
  #end
}
