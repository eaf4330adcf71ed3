// In place of capped.wgsl where there is no soft cap: nothing is done to scores or logits. `item` is linked.

fn soft_cap(x: item) -> item { return x; }
fn soft_cap_gradient(d: item, capped: item) -> item { return d; }
