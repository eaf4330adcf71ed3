// Which keys a row sees, for every shader of attention. The keys of a row stand in one run, its prefix and then its own
// segment: a key's place in it is its token's position in the sequence. A row at place p sees the keys at the places
// first_seen(p) … p. `window` is linked; 0: a row sees all keys up to its own.
//
// A span is a row's entry of `rows`: prefix_start, prefix_length, own_start, subtree_end.

// Where row i of a span's segment stands in its run.
fn place_of(span: vec4<u32>, i: u32) -> u32 { return span.y + i - span.z; }

// The row that holds the key at a place of a span's run.
fn row_of_key(span: vec4<u32>, place: u32) -> u32 {
  return select(span.z + place - span.y, span.x + place, place < span.y);
}

// The first place that a row at `place` sees: window − 1 before it.
fn first_seen(place: u32) -> u32 {
  if window == 0u { return 0u; }
  return select(0u, place + 1u - window, place >= window);
}

// The block of `size` places in which first_seen lies: blocks before it are left out.
fn first_block(place: u32, size: u32) -> u32 { return first_seen(place) / size * size; }

// Whether a row that sees the places from `begin` to `place` sees the key at a place.
fn sees(begin: u32, place: u32, key: u32) -> bool { return begin <= key && key <= place; }

// Whether row i, of this span, sees the key that row j holds.
fn row_sees(span: vec4<u32>, i: u32, j: u32) -> bool {
  let own = span.z <= j && j <= i;
  let prefix = span.x <= j && j < span.x + span.y;
  let key = select(j - span.x, place_of(span, j), own);
  return (own || prefix) && first_seen(place_of(span, i)) <= key;
}

// Whether the windows of row i and of those after it in its segment begin after all keys up to that of row j. Row j
// lies in the segment, in the prefix, or in the padding after the prefix.
fn passed(span: vec4<u32>, i: u32, j: u32) -> bool {
  let key = select(min(j - span.x, span.y - 1u), place_of(span, j), span.z <= j);
  return window > 0u && key < first_seen(place_of(span, i));
}
