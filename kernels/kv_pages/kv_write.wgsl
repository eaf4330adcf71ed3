// Writes keys and values of rows into their pages: a thread owns four neighbouring numbers of a row's key and value.
//
//   page = page_table[slots[r], positions[r] / 32]
//   k_pages[page, h, positions[r] mod 32, d] = k[r, h, d]        and likewise v_pages from v
//
//   params      count N · K · D / 4, kv_heads K, slot_pages P, width D / 4
//   k, v        [N, K, D]     f32   in
//   page_table  [S, P]        u32   in
//   slots       [N]           u32   in, 0xffffffff: the row writes nothing
//   positions   [N]           u32   in
//   k_pages     [·, K, 32, D] f32 or f16   out, overwritten where a row lies
//   v_pages     [·, K, 32, D] f32 or f16   out, overwritten where a row lies
//
// Dispatch: ceil(count / 64) workgroups, wrapped into y. Two active rows never share a slot and a position.
// `PAGE_TOKENS` is linked.

struct Params { count: u32, kv_heads: u32, slot_pages: u32, width: u32 }

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> k: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> v: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> page_table: array<u32>;
@group(0) @binding(4) var<storage, read> slots: array<u32>;
@group(0) @binding(5) var<storage, read> positions: array<u32>;
@group(0) @binding(6) var<storage, read_write> k_pages: array<Packed>;
@group(0) @binding(7) var<storage, read_write> v_pages: array<Packed>;

const NO_SLOT = 0xffffffffu;

@compute @workgroup_size(64)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) thread: u32,
) {
  let x = (group.x + group.y * groups.x) * 64u + thread;
  if x >= params.count { return; }
  let d = x % params.width;
  let h = x / params.width % params.kv_heads;
  let row = x / params.width / params.kv_heads;
  let slot = slots[row];
  if slot == NO_SLOT { return; }
  let page = page_table[slot * params.slot_pages + positions[row] / PAGE_TOKENS];
  let token = (page * params.kv_heads + h) * PAGE_TOKENS + positions[row] % PAGE_TOKENS;
  k_pages[token * params.width + d] = pack_four(k[x]);
  v_pages[token * params.width + d] = pack_four(v[x]);
}
