// For software adapters: a thread owns a row, so nothing is combined, and there is no barrier.

const row_threads = 1u;
const group_threads = 32u;

fn join_sum(v: f32, thread: u32) -> f32 { return v; }
fn join_max(v: f32, thread: u32) -> f32 { return v; }
