// Packed attention, backward to q, for software adapters: the lanes of a subgroup are consecutive rows of one segment,
// keys are loaded one to a lane and broadcast, as in attention_forward_lanes.wgsl.
//
//   p[i, h, j] = exp(s[i, h, j] − lse[i, h])
//   d_s[i, h, j] = soft_cap'(s[i, h, j]) · p[i, h, j] · (d_o[i, h] · v[j] − delta[i, h])
//   d_q[i, h] = scale · Σ_j d_s[i, h, j] · k[j]
//
//   params  rows N, heads H, kv_heads K, scale
//   q       [N, H, D] f32   in
//   k, v    [N, K, D] f32   in
//   rows    [N, 4]    u32   in: prefix_start, prefix_length, own_start, subtree_end
//   lse     [N, H]    f32   in, from the forward pass
//   d_o     [N, H, D] f32   in
//   delta   [N, H]    f32   in, from attention_delta.wgsl
//   d_q     [N, H, D] f32   out, overwritten
//
// Dispatch: ceil(N / THREADS) × K · ceil(H / K / HEADS) workgroups; a template for unroll.ts.
// `visibility.wgsl` and the broadcasts of lanes are linked.
// Source: Dao, "FlashAttention-2" (2023), algorithm 2.

struct Params { rows: u32, heads: u32, kv_heads: u32, scale: f32 }

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> q: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> k: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> v: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> rows: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read> lse: array<f32>;
@group(0) @binding(6) var<storage, read> d_o: array<vec4<f32>>;
@group(0) @binding(7) var<storage, read> delta: array<f32>;
@group(0) @binding(8) var<storage, read_write> d_q: array<vec4<f32>>;

@compute @workgroup_size({THREADS})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  hide_lanes(params.rows == 0xffffffffu);
  let lane = thread % {LANES}u;
  let first = group.x * {THREADS}u + thread - lane;
  let i = first + lane;
  let last = params.rows - 1u;
  let row = min(i, last);
  let group_heads = params.heads / params.kv_heads;
  let chunks = (group_heads + {HEADS}u - 1u) / {HEADS}u;
  let kv = group.y / chunks;
  let chunk = group.y % chunks * {HEADS}u;

  let span = rows[row];
  let tile = broadcast_vec4u_0(span);
  // A row of padding sees only itself.
  let place = place_of(tile, i);
  let begin = select(place, first_seen(place), span.z == tile.z);
  let end = place_of(tile, first) + {LANES}u;

  #for h HEADS
  let at{h} = row * params.heads + kv * group_heads + min(chunk + {h}u, group_heads - 1u);
  let lse{h} = lse[at{h}];
  let delta{h} = delta[at{h}];
  #for d D4
  let q{h}_{d} = q[at{h} * {D4}u + {d}u] * params.scale;
  let d_o{h}_{d} = d_o[at{h} * {D4}u + {d}u];
  var d_q{h}_{d} = vec4<f32>();
  #end
  #end

  for (var base = first_block(place_of(tile, first), {LANES}u); base < end; base += {LANES}u) {
    let j = base + lane;
    let key_row = row_of_key(tile, j);
    let key = (min(key_row, last) * params.kv_heads + kv) * {D4}u;

    #for d D4
    let k{d} = k[key + {d}u];
    #end
    #for d D4
    let v{d} = v[key + {d}u];
    #end
    #for l LANES
    #for h HEADS
    var s{h}_{l} = 0.0;
    var d_p{h}_{l} = 0.0;
    #end
    #end
    #for d D4
    #for l LANES
    {
      let k_l = broadcast_vec4f_{l}(k{d});
      #for h HEADS
      s{h}_{l} += dot(q{h}_{d}, k_l);
      #end
    }
    #end
    #end
    #for d D4
    #for l LANES
    {
      let v_l = broadcast_vec4f_{l}(v{d});
      #for h HEADS
      d_p{h}_{l} += dot(d_o{h}_{d}, v_l);
      #end
    }
    #end
    #end
    #for l LANES
    let seen{l} = sees(begin, place, base + {l}u);
    #for h HEADS
    let c{h}_{l} = soft_cap(s{h}_{l});
    let d_c{h}_{l} = exp(c{h}_{l} - lse{h}) * (d_p{h}_{l} - delta{h});
    let d_s{h}_{l} = select(0.0, soft_cap_gradient(d_c{h}_{l}, c{h}_{l}), seen{l});
    #end
    #end

    // What the lanes have given each other above is shuffled again.
    hide_lanes(params.heads == 0xffffffffu);
    #for d D4
    #for l LANES
    let k{d}_{l} = broadcast_vec4f_{l}(k{d});
    #for h HEADS
    d_q{h}_{d} += d_s{h}_{l} * k{d}_{l};
    #end
    #end
    #end
  }

  if i > last { return; }
  #for h HEADS
  #for d D4
  d_q[at{h} * {D4}u + {d}u] = d_q{h}_{d} * params.scale;
  #end
  #end
}
