// A thread owns a row: nothing is to be joined, and there is no barrier (software adapters).

const row_threads = 1u;
const group_threads = 32u;

fn join_sum(v: f32, thread: u32) -> f32 { return v; }
fn join_max(v: f32, thread: u32) -> f32 { return v; }
