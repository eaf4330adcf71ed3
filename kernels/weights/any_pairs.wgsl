// Reads a pair of neighbouring vectors of a weight whose own text knows no pairs.

fn load_pair(i: u32) -> Pair { return Pair(load_weight(2u * i), load_weight(2u * i + 1u)); }
