// The lowest logit that remains after top_k and top_p: found exactly, bit by bit of the ordered pattern of an f32, so that
// nothing is sorted. Ids tied with the last remaining one remain.
//
//   cut_k  = the largest c with at least top_k logits ≥ c                     (top_k 0: all)
//   cutoff = the largest c ≥ cut_k with Σ_{z ≥ c} p(z) ≥ top_p · Σ_{z ≥ cut_k} p(z)   (top_p 1: cut_k)
//   p(z) = exp((z − max) / T), of ids that the mask allows; T is 1 where the temperature is 0
//
//   params       rows B, items of a row, words of a row of the mask
//   logits       [B, V] f32              in
//   mask         [B, ceil(V / 32)] u32   in
//   temperature  [B] f32                 in
//   top_k        [B] u32                 in
//   top_p        [B] f32                 in, above 0
//   cutoff       [B] f32                 out, overwritten
//
// Dispatch: ceil(B · row_threads / group_threads) workgroups. `item`, masked_logits and the row part are linked.
// Source: Holtzman et al., "The Curious Case of Neural Text Degeneration" (2020), §3.1, after Fan et al. (2018), §4.

struct Params { rows: u32, items: u32, mask_words: u32 }

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(3) var<storage, read> temperature: array<f32>;
@group(0) @binding(4) var<storage, read> top_k: array<u32>;
@group(0) @binding(5) var<storage, read> top_p: array<f32>;
@group(0) @binding(6) var<storage, read_write> cutoff: array<f32>;

const sign = 0x80000000u;

// The float at position `order` among all floats: the inverse of an order-preserving map.
fn ordered(order: u32) -> f32 { return bitcast<f32>(select(~order, order ^ sign, order >= sign)); }

// Finite floats lie between these; patterns outside are not numbers.
const lowest_order = 0x00800000u;
const highest_order = 0xff7fffffu;

fn finite(order: u32) -> f32 { return ordered(clamp(order, lowest_order, highest_order)); }

fn count_from(row: u32, thread: u32, c: f32) -> f32 {
  var count = item();
  for (var i = thread; i < params.items; i += row_threads) {
    count += select(item(), item(1.0), masked_logits(row, i) >= item(c));
  }
  return join_sum(item_sum(count), thread);
}

fn mass_from(row: u32, thread: u32, c: f32, top: f32, inverse: f32) -> f32 {
  var mass = item();
  for (var i = thread; i < params.items; i += row_threads) {
    let z = masked_logits(row, i);
    mass += select(item(), exp(max((z - top) * inverse, item(farthest))), z >= item(c));
  }
  return join_sum(item_sum(mass), thread);
}

@compute @workgroup_size(group_threads)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  // Threads after the last row repeat it, so that all of them reach the barriers.
  let row = min(id.x / row_threads, params.rows - 1u);
  let thread = id.x % row_threads;
  let t = temperature[row];
  let inverse = 1.0 / select(t, 1.0, t == 0.0);
  var highest = masked;
  for (var i = thread; i < params.items; i += row_threads) { highest = max(highest, item_max(masked_logits(row, i))); }
  let top = join_max(highest, thread);

  let wanted = f32(top_k[row]);
  var order_k = 0u;
  for (var bit = 0u; bit < 32u; bit++) {
    let next = order_k | (sign >> bit);
    let count = count_from(row, thread, finite(next));
    if next <= highest_order && count >= wanted && wanted > 0.0 { order_k = next; }
  }
  let cut_k = finite(order_k);

  let share = top_p[row] * mass_from(row, thread, cut_k, top, inverse);
  var order_p = 0u;
  for (var bit = 0u; bit < 32u; bit++) {
    let next = order_p | (sign >> bit);
    let mass = mass_from(row, thread, finite(next), top, inverse);
    if next <= highest_order && mass >= share { order_p = next; }
  }
  let cut_p = max(finite(order_p), cut_k);
  if thread == 0u { cutoff[row] = select(cut_p, cut_k, top_p[row] >= 1.0); }
}
