// Where the rows of a step lie in the pages: a thread owns a row.
//
//   places[r] = (positions[r], page · K · 32 + positions[r] mod 32)        page = page_table[slots[r], positions[r] / 32]
//
// The second number is the row's token of head 0, counted over all tokens of all heads; 0xffffffff for a row without slot.
//
//   params      rows N, kv_heads K, slot_pages P
//   page_table  [S, P] u32  in
//   slots       [N] u32     in, 0xffffffff: none
//   positions   [N] u32     in
//   places      [N, 2] u32  out, overwritten
//
// Dispatch: ceil(N / 64) workgroups. `PAGE_TOKENS` is linked.

struct Params { rows: u32, kv_heads: u32, slot_pages: u32 }

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> page_table: array<u32>;
@group(0) @binding(2) var<storage, read> slots: array<u32>;
@group(0) @binding(3) var<storage, read> positions: array<u32>;
@group(0) @binding(4) var<storage, read_write> places: array<vec2<u32>>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  if id.x >= params.rows { return; }
  let position = positions[id.x];
  let slot = slots[id.x];
  var token = 0xffffffffu;
  if slot != 0xffffffffu {
    let page = page_table[slot * params.slot_pages + position / PAGE_TOKENS];
    token = page * params.kv_heads * PAGE_TOKENS + position % PAGE_TOKENS;
  }
  places[id.x] = vec2<u32>(position, token);
}
