// Shared by the kernels of paged attention for software adapters: the position of a token, and how many of a
// subgroup's rows' first tokens lie in the same pages (all of a prefill's, a group's prompt in a decode).
//
//   params      rows N, heads H, kv_heads K, slot_pages P, scale
//   q           [N, H, D] f32                in
//   k_pages     [pages, K, 32, D] f32 or f16 in
//   v_pages     [pages, K, 32, D] f32 or f16 in
//   page_table  [S, P] u32                   in
//   slots       [N] u32                      in
//   positions   [N] u32                      in

struct Params { rows: u32, heads: u32, kv_heads: u32, slot_pages: u32, scale: f32 }

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> q: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> k_pages: array<Packed>;
@group(0) @binding(3) var<storage, read> v_pages: array<Packed>;
@group(0) @binding(4) var<storage, read> page_table: array<u32>;
@group(0) @binding(5) var<storage, read> slots: array<u32>;
@group(0) @binding(6) var<storage, read> positions: array<u32>;

const LOWEST = -3.0e38;
const NO_SLOT = 0xffffffffu;

// The index of the first vector of a token's key (or value).
fn token_at(slot: u32, token: u32, kv: u32) -> u32 {
  let page = page_table[slot * params.slot_pages + token / PAGE_TOKENS];
  return ((page * params.kv_heads + kv) * PAGE_TOKENS + token % PAGE_TOKENS) * {D4}u;
}

// A row's slot, or NO_SLOT after the last row.
fn slot_of(row: u32) -> u32 {
  return select(NO_SLOT, slots[min(row, params.rows - 1u)], row < params.rows);
}

// The number of tokens that a row attends to; 0 for an inactive row.
fn tokens_of(row: u32, slot: u32) -> u32 {
  return select(0u, positions[min(row, params.rows - 1u)] + 1u, slot != NO_SLOT);
}

// x: the number of first tokens that lie in the same pages for every row that has them; y: a slot with all of them.
// Uniform over the subgroup. A row that is alone in its subgroup shares nothing, because the kernel for its own tokens has
// work for all lanes then; without lanes there is no such kernel.
fn shared_tokens(lane: u32, slot: u32, tokens: u32) -> vec2<u32> {
  let most = subgroup_max(tokens);
  let leader = subgroup_min(select(NO_SLOT, slot, tokens == most));
  let first = subgroup_min(select(NO_SLOT, lane, tokens > 0u));
  let last = subgroup_max(select(0u, lane, tokens > 0u));
  if {LANES}u > 1u && first == last { return vec2<u32>(0u, leader); }
  var count = 0u;
  for (var page = 0u; page * PAGE_TOKENS < most; page++) {
    let has_page = tokens > page * PAGE_TOKENS;
    let entry = page_table[select(leader, slot, has_page) * params.slot_pages + page];
    let low = subgroup_min(entry);
    let high = subgroup_max(entry);
    if low != high { break; }
    count = min(most, (page + 1u) * PAGE_TOKENS);
  }
  return vec2<u32>(count, leader);
}
