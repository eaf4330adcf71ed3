// What the lanes of a subgroup give each other: broadcast_…_l(x) is lane l's x, and subgroup_max and subgroup_min are
// over the x of all lanes. The lane of a broadcast is part of the name, because WGSL wants it constant. A template for
// unroll.ts.
//
// The compiler of a software adapter makes two instructions of a broadcast from a lane that it knows, and with 8 lanes one of a
// shuffle whose index it does not know. Of equal broadcasts in two places it makes one, and keeps the result in memory, which
// takes longer than another shuffle. `hide_lanes` makes lanes unknown, and a second call makes them others than before. Its
// argument is false, which the compiler must not know. SHUFFLES is 1 for 8 lanes, else 0, and BROADCASTS the other way round.

#for s SHUFFLES
var<private> lane_0: u32;
fn hide_lanes(never: bool) { lane_0 = select(0u, 1u, never); }
#for l LANES
fn broadcast_f32_{l}(x: f32) -> f32 { return subgroupShuffle(x, lane_0 + {l}u); }
fn broadcast_u32_{l}(x: u32) -> u32 { return subgroupShuffle(x, lane_0 + {l}u); }
fn broadcast_vec4f_{l}(x: vec4<f32>) -> vec4<f32> { return subgroupShuffle(x, lane_0 + {l}u); }
fn broadcast_vec4u_{l}(x: vec4<u32>) -> vec4<u32> { return subgroupShuffle(x, lane_0 + {l}u); }
#end
#end
#for b BROADCASTS
fn hide_lanes(never: bool) {}
#for l LANES
fn broadcast_f32_{l}(x: f32) -> f32 { return subgroupBroadcast(x, {l}u); }
fn broadcast_u32_{l}(x: u32) -> u32 { return subgroupBroadcast(x, {l}u); }
fn broadcast_vec4f_{l}(x: vec4<f32>) -> vec4<f32> { return subgroupBroadcast(x, {l}u); }
fn broadcast_vec4u_{l}(x: vec4<u32>) -> vec4<u32> { return subgroupBroadcast(x, {l}u); }
#end
#end
// Lane l's x, for an l that is the same in all lanes.
fn shuffle_vec4f(x: vec4<f32>, l: u32) -> vec4<f32> { return subgroupShuffle(x, l); }
fn subgroup_max(x: u32) -> u32 { return subgroupMax(x); }
fn subgroup_min(x: u32) -> u32 { return subgroupMin(x); }
