// Rounds keys and values as a page would: a thread owns four neighbouring numbers of a key and a value.
//
//   k[i] ← unpack(pack(k[i]))        and likewise v
//
//   params  count N · K · D / 4
//   k, v    [N, K, D] f32   in and out
//
// Dispatch: ceil(count / 64) workgroups, wrapped into y. `pack_four` and `unpack_four` are linked.

struct Params { count: u32 }

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> k: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> v: array<vec4<f32>>;

@compute @workgroup_size(64)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) thread: u32,
) {
  let x = (group.x + group.y * groups.x) * 64u + thread;
  if x >= params.count { return; }
  k[x] = unpack_four(pack_four(k[x]));
  v[x] = unpack_four(pack_four(v[x]));
}
