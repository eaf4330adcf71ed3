// Replaces subgroup_lanes.wgsl where a lane is alone: what it would get from others is its own.

fn hide_lanes(never: bool) {}
fn broadcast_f32_0(x: f32) -> f32 { return x; }
fn broadcast_u32_0(x: u32) -> u32 { return x; }
fn broadcast_vec4f_0(x: vec4<f32>) -> vec4<f32> { return x; }
fn broadcast_vec4u_0(x: vec4<u32>) -> vec4<u32> { return x; }
fn subgroup_max(x: u32) -> u32 { return x; }
fn subgroup_min(x: u32) -> u32 { return x; }
