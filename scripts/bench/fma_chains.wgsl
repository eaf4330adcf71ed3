// Multiply-add rate: every thread keeps a few independent chains in registers and does not access memory.
//
//   x_c ← x_c · factor + addend        UNROLL times in a round, for each of the CHAINS chains; y[t] = Σ_c x_c
//
//   params  rounds, factor, addend
//   y       [threads] f32     out
//
// Dispatch: one thread for each element of y. The launcher expands `#for` lines.

struct Params { rounds: u32, factor: f32, addend: f32 }

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let factor = params.factor;
  let addend = params.addend;
  #for c CHAINS
  var x{c} = f32(id.x + {c}u);
  #end
  for (var round = 0u; round < params.rounds; round++) {
    #for u UNROLL
    #for c CHAINS
    x{c} = fma(x{c}, factor, addend);
    #end
    #end
  }
  var sum = 0.0;
  #for c CHAINS
  sum += x{c};
  #end
  y[id.x] = sum;
}
