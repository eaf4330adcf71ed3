// Copies the first tokens of pages to other pages: a thread owns four neighbouring numbers of one token's key and value.
//
//   k_pages[to, h, t, d] = k_pages[from, h, t, d] for t < tokens, for every (from, to, tokens); likewise v_pages
//
//   params   count M · K · 32 · D / 4, kv_heads K, width D / 4
//   copies   [M, 3]        u32   in: from, to, tokens
//   k_pages  [·, K, 32, D] f32 or f16   in and out
//   v_pages  [·, K, 32, D] f32 or f16   in and out
//
// Dispatch: ceil(count / 64) workgroups, wrapped into y. No page is read by one copy and written by another.
// `PAGE_TOKENS` is linked.

struct Params { count: u32, kv_heads: u32, width: u32 }

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> copies: array<u32>;
@group(0) @binding(2) var<storage, read_write> k_pages: array<Packed>;
@group(0) @binding(3) var<storage, read_write> v_pages: array<Packed>;

@compute @workgroup_size(64)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) thread: u32,
) {
  let x = (group.x + group.y * groups.x) * 64u + thread;
  if x >= params.count { return; }
  let page_size = params.kv_heads * PAGE_TOKENS * params.width;
  let copy = x / page_size * 3u;
  let within = x % page_size;
  if within / params.width % PAGE_TOKENS >= copies[copy + 2u] { return; }
  let read_at = copies[copy] * page_size + within;
  let write_at = copies[copy + 1u] * page_size + within;
  k_pages[write_at] = k_pages[read_at];
  v_pages[write_at] = v_pages[read_at];
}
