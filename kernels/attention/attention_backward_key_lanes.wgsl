// Packed attention, backward to k and v, for software adapters: a lane owns KEYS keys of one key/value head and
// iterates over the rows that attend to them, all query heads of the group inside. Rows are loaded one to a lane and
// broadcast.
//
//   d_v[j] = Σ_i Σ_h p[i, h, j] · d_o[i, h]        d_k[j] = scale · Σ_i Σ_h d_s[i, h, j] · q[i, h]
//
// p and d_s as in attention_backward_query_lanes.wgsl; i in j … subtree_end[j] − 1. The sum has one order: blocks of
// LANES rows, in a block the heads, in a head the rows. No atomics.
//
//   params  rows N, heads H, kv_heads K, scale
//   q       [N, H, D] f32   in
//   k, v    [N, K, D] f32   in
//   rows    [N, 4]    u32   in: prefix_start, prefix_length, own_start, subtree_end
//   lse     [N, H]    f32   in, from the forward pass
//   d_o     [N, H, D] f32   in
//   delta   [N, H]    f32   in, from attention_delta.wgsl
//   d_k     [N, K, D] f32   out, overwritten
//   d_v     [N, K, D] f32   out, overwritten
//
// Dispatch: ceil(N / (THREADS · KEYS)) × K workgroups; a template for unroll.ts.
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
@group(0) @binding(8) var<storage, read_write> d_k: array<vec4<f32>>;
@group(0) @binding(9) var<storage, read_write> d_v: array<vec4<f32>>;

@compute @workgroup_size({THREADS})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  hide_lanes(params.rows == 0xffffffffu);
  let lane = thread % {LANES}u;
  let first = (group.x * {THREADS}u + thread - lane) * {KEYS}u;
  let last = params.rows - 1u;
  let group_heads = params.heads / params.kv_heads;
  let kv = group.y;

  var subtree_end = 0u;
  #for t KEYS
  let j{t} = first + {t}u * {LANES}u + lane;
  let at{t} = (min(j{t}, last) * params.kv_heads + kv) * {D4}u;
  subtree_end = max(subtree_end, rows[min(j{t}, last)].w);
  #for d D4
  let k{t}_{d} = k[at{t} + {d}u];
  let v{t}_{d} = v[at{t} + {d}u];
  var d_k{t}_{d} = vec4<f32>();
  var d_v{t}_{d} = vec4<f32>();
  #end
  #end
  let end = min(subgroup_max(subtree_end), params.rows);

  for (var base = first; base < end; base += {LANES}u) {
    let i = min(base + lane, last);
    let span = rows[i];
    var any_seen = false;
    #for l LANES
    let i{l} = base + {l}u;
    let span{l} = broadcast_vec4u_{l}(span);
    #for t KEYS
    let seen{t}_{l} = i{l} <= last && row_sees(span{l}, i{l}, j{t});
    any_seen = any_seen || seen{t}_{l};
    #end
    #end
    // Rows whose windows begin after these keys.
    if window > 0u && subgroup_max(select(0u, 1u, any_seen)) == 0u { continue; }
    for (var h = 0u; h < group_heads; h++) {
      let at = i * params.heads + kv * group_heads + h;
      let lse_i = lse[at];
      let delta_i = delta[at];
      #for d D4
      let q{d} = q[at * {D4}u + {d}u] * params.scale;
      #end
      #for d D4
      let d_o{d} = d_o[at * {D4}u + {d}u];
      #end
      #for l LANES
      #for t KEYS
      var s{t}_{l} = 0.0;
      var d_p{t}_{l} = 0.0;
      #end
      #end
      #for d D4
      #for l LANES
      {
        let q_l = broadcast_vec4f_{l}(q{d});
        #for t KEYS
        s{t}_{l} += dot(k{t}_{d}, q_l);
        #end
      }
      #end
      #end
      #for d D4
      #for l LANES
      {
        let d_o_l = broadcast_vec4f_{l}(d_o{d});
        #for t KEYS
        d_p{t}_{l} += dot(v{t}_{d}, d_o_l);
        #end
      }
      #end
      #end
      #for l LANES
      let lse_{l} = broadcast_f32_{l}(lse_i);
      let delta_{l} = broadcast_f32_{l}(delta_i);
      #for t KEYS
      let c{t}_{l} = soft_cap(s{t}_{l});
      let p{t}_{l} = select(0.0, exp(c{t}_{l} - lse_{l}), seen{t}_{l});
      let d_s{t}_{l} = soft_cap_gradient(p{t}_{l} * (d_p{t}_{l} - delta_{l}), c{t}_{l});
      #end
      #end
      // What the lanes have given each other above is shuffled again.
      hide_lanes(params.heads == 0xffffffffu);
      #for d D4
      #for l LANES
      {
        let d_o_l = broadcast_vec4f_{l}(d_o{d});
        let q_l = broadcast_vec4f_{l}(q{d});
        #for t KEYS
        d_v{t}_{d} += p{t}_{l} * d_o_l;
        d_k{t}_{d} += d_s{t}_{l} * q_l;
        #end
      }
      #end
      #end
    }
  }

  #for t KEYS
  if j{t} <= last {
    #for d D4
    d_k[at{t} + {d}u] = d_k{t}_{d};
    d_v[at{t} + {d}u] = d_v{t}_{d};
    #end
  }
  #end
}
