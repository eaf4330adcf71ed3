// Logits under a token mask: an id whose bit is 0 counts as masked, and so does −inf.
//
//   logits  [B, V] f32                in
//   mask    [B, ceil(V / 32)] u32     in; not read where params.mask_words is 0
//
// Linked before the sampling kernels; `item` and `item_keep` come from the items part.

@group(0) @binding(1) var<storage, read> logits: array<item>;
@group(0) @binding(2) var<storage, read> mask: array<u32>;

// A masked logit as a finite number, so that differences stay finite. exp(farthest) is 0 next to a 1.
const masked = -3.0e38;
const farthest = -100.0;

fn masked_logits(row: u32, i: u32) -> item {
  let z = max(logits[row * params.items + i], item(masked));
  if params.mask_words == 0u { return z; }
  let id = i * item_size;
  return item_keep(z, item(masked), mask[row * params.mask_words + id / 32u] >> (id % 32u));
}
