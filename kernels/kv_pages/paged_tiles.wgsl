// Shared by the kernels of paged attention that work in tiles of rows, for GPUs: what they bind first, and what the files
// that are inserted read.
//
//   params      of the kernel; with rows N, kv_heads K, slot_pages P
//   q           [N, H, D]     f32   in
//   k_pages     [·, K, 32, D] f32 or f16   in
//   v_pages     [·, K, 32, D] f32 or f16   in
//   page_table  [S, P]        u32   in
//   slots       [N]           u32   in, 0xffffffff: inactive
//   positions   [N]           u32   in

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> q: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> k_pages: array<Packed>;
@group(0) @binding(3) var<storage, read> v_pages: array<Packed>;
@group(0) @binding(4) var<storage, read> page_table: array<u32>;
@group(0) @binding(5) var<storage, read> slots: array<u32>;
@group(0) @binding(6) var<storage, read> positions: array<u32>;

const NO_SLOT = 0xffffffffu;
// A score that is not seen, far below every maximum.
const LOWEST = -3.0e38;
const NO_TOP = -1.0e30;
const BLOCK = 32u;

// Queries, then the weights of 4 rows; keys, then values. 9 numbers instead of 8 keep neighbours in different banks.
var<workgroup> a_tile: array<array<array<vec4<f32>, 9>, {G}>, 4>;
var<workgroup> b_tile: array<array<array<vec4<f32>, 9>, {KG}>, {KT}>;
var<workgroup> tops: array<array<vec4<f32>, {KG}>, {G}>;

// A thread's 4 rows: the first one, and a bit for each one that it stores.
struct OwnRows { row: u32, stored: u32 }

fn is_stored(own: OwnRows, i: u32) -> bool { return ((own.stored >> i) & 1u) == 1u; }

fn is_seen(own: OwnRows, i: u32, key: u32) -> bool {
  let place = positions[min(own.row + i, params.rows - 1u)];
  return is_stored(own, i) && sees(first_seen(place), place, key);
}

// The index of the first vector of a slot's token.
fn token_at(slot: u32, token: u32, kv: u32) -> u32 {
  let page = page_table[slot * params.slot_pages + token / PAGE_TOKENS];
  return ((page * params.kv_heads + kv) * PAGE_TOKENS + token % PAGE_TOKENS) * {D4}u;
}

fn left0(at: u32) -> vec4<f32> { return q[at]; }
fn right0(at: u32) -> vec4<f32> { return unpack_four(k_pages[at]); }
fn summed0(at: u32) -> vec4<f32> { return unpack_four(v_pages[at]); }
