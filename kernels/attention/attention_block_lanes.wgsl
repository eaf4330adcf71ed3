// A step of attention for software adapters: a row's sums go on with a block of LANES keys. It is inserted into a loop over
// blocks, so packed rows and pages sum in one order. Each lane has one key of the block, and broadcasts share it.
//
//   s[h, l] = soft_cap(q[h] · key l), hidden keys LOWEST        top = max(m[h], s[h, 0], …)        keep = exp(m[h] − top)
//   sum[h] ← keep · sum[h] + Σ_l exp(s[h, l] − top)        o[h] ← keep · o[h] + Σ_l exp(s[h, l] − top) · value l
//
// Around it are defined: the registers of a head h, which are q by vector (scaled), m, sum, and o by vector; `base`, the
// first key of the block; `key`, the first vector of the lane's key; `begin` and `place`, the first and the last key that
// the row sees; key_vector and value_vector, which read a vector of four. A template for unroll.ts.
// `visibility.wgsl` and the broadcasts of lanes are linked.
// Source: Dao, "FlashAttention-2" (2023), algorithm 1.

#for d D4
let k{d} = key_vector(key + {d}u);
#end
#for h HEADS
var top{h} = m{h};
#end
#for l LANES
let seen{l} = sees(begin, place, base + {l}u);
#for h HEADS
var s{h}_{l} = 0.0;
#end
#for d D4
{
  let k_l = broadcast_vec4f_{l}(k{d});
  #for h HEADS
  s{h}_{l} += dot(q{h}_{d}, k_l);
  #end
}
#end
#for h HEADS
s{h}_{l} = select(LOWEST, soft_cap(s{h}_{l}), seen{l});
top{h} = max(top{h}, s{h}_{l});
#end
#end

#for h HEADS
let keep{h} = exp(m{h} - top{h});
m{h} = top{h};
sum{h} *= keep{h};
#for l LANES
let p{h}_{l} = exp(s{h}_{l} - top{h});
sum{h} += p{h}_{l};
#end
#end

#for d D4
{
  let v_d = value_vector(key + {d}u);
  #for h HEADS
  var x{h} = o{h}_{d} * keep{h};
  #end
  #for l LANES
  let v_{l} = broadcast_vec4f_{l}(v_d);
  #for h HEADS
  x{h} += p{h}_{l} * v_{l};
  #end
  #end
  #for h HEADS
  o{h}_{d} = x{h};
  #end
}
#end
