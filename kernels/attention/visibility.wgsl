// The keys that a row sees, for all attention shaders. A row's keys are its prefix followed by its own segment. A key's
// place in this run is its token's position in the sequence. A row at place p sees the keys at places first_seen(p) …
// p. `window` is linked; 0 means all keys up to the row's own.
//
// A span is a row's entry of `rows`: prefix_start, prefix_length, own_start, subtree_end.

// The place of row i of a span's segment in its run.
fn place_of(span: vec4<u32>, i: u32) -> u32 { return span.y + i - span.z; }

// The row of the key at a place in a span's run.
fn row_of_key(span: vec4<u32>, place: u32) -> u32 {
  return select(span.z + place - span.y, span.x + place, place < span.y);
}

// The first place that a row at `place` sees: `window − 1` before it.
fn first_seen(place: u32) -> u32 {
  if window == 0u { return 0u; }
  return select(0u, place + 1u - window, place >= window);
}

// The block of `size` places that contains first_seen; earlier blocks are skipped.
fn first_block(place: u32, size: u32) -> u32 { return first_seen(place) / size * size; }

// Whether a row that sees the places from `begin` to `place` sees the key at a place.
fn sees(begin: u32, place: u32, key: u32) -> bool { return begin <= key && key <= place; }

// Whether row i with this span sees the key of row j.
fn row_sees(span: vec4<u32>, i: u32, j: u32) -> bool {
  let own = span.z <= j && j <= i;
  let prefix = span.x <= j && j < span.x + span.y;
  let key = select(j - span.x, place_of(span, j), own);
  return (own || prefix) && first_seen(place_of(span, i)) <= key;
}

// Whether the windows of row i and of later rows in its segment begin after all keys up to row j's. Row j lies in the
// segment, in the prefix, or in the padding after the prefix.
fn passed(span: vec4<u32>, i: u32, j: u32) -> bool {
  let key = select(min(j - span.x, span.y - 1u), place_of(span, j), span.z <= j);
  return window > 0u && key < first_seen(place_of(span, i));
}
