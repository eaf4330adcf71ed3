// What the lanes of a subgroup give each other: broadcast_…_l(x) is lane l's x, and subgroup_max and subgroup_min are
// over the x of all lanes. The lane of a broadcast is part of the name, because WGSL wants it constant. A template for
// unroll.ts.

#for l LANES
fn broadcast_f32_{l}(x: f32) -> f32 { return subgroupBroadcast(x, {l}u); }
fn broadcast_u32_{l}(x: u32) -> u32 { return subgroupBroadcast(x, {l}u); }
fn broadcast_vec4f_{l}(x: vec4<f32>) -> vec4<f32> { return subgroupBroadcast(x, {l}u); }
fn broadcast_vec4u_{l}(x: vec4<u32>) -> vec4<u32> { return subgroupBroadcast(x, {l}u); }
#end
// Lane l's x, for an l that is the same in all lanes.
fn shuffle_vec4f(x: vec4<f32>, l: u32) -> vec4<f32> { return subgroupShuffle(x, l); }
fn subgroup_max(x: u32) -> u32 { return subgroupMax(x); }
fn subgroup_min(x: u32) -> u32 { return subgroupMin(x); }
