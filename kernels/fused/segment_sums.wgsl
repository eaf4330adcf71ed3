// What the kernels that follow a product of segments (matmul_segments.wgsl) share: the sums of its chunks, added in order
// as matmul_chunks.wgsl adds them, and the low-rank term as matmul_tiles.wgsl sums it.
//
//   sums  [K_s, N, C_s] f32 for each segment   in, four numbers a vector
//   lora  B of each segment that has one, [C_s, R] f32   in
//
// `operand`, which rounds what is multiplied, is linked. A template for unroll.ts.

@group(0) @binding(1) var<storage, read> sums: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> lora: array<vec4<f32>>;

// The sum of all chunks, of which the first lies at `first`. BATCH loads do not wait for each other.
fn chunk_sum(first: u32, stride: u32, chunks: u32) -> vec4<f32> {
  var sum = sums[first];
  let last = chunks - 1u;
  for (var chunk = 1u; chunk <= last; chunk += {BATCH}u) {
    #for k BATCH
    let p{k} = sums[first + min(chunk + {k}u, last) * stride];
    #end
    #for k BATCH
    if chunk + {k}u <= last { sum += p{k}; }
    #end
  }
  return sum;
}

// Goes on with the low-rank term of four columns by four steps, as matmul_matrices.wgsl does.
fn add_low_rank(z: vec4<f32>, u: vec4<f32>, b: mat4x4<f32>) -> vec4<f32> {
  var sum = z;
  #for r 4
  sum = fma(vec4<f32>(u[{r}]), b[{r}], sum);
  #end
  return sum;
}

fn lora_at(i: u32) -> vec4<f32> { return operand(lora[i]); }

// Four columns by four steps: the vectors of B at `at` and at every `stride` from there.
fn low_rank_at(at: u32, stride: u32) -> mat4x4<f32> {
  return transpose(mat4x4<f32>(lora_at(at), lora_at(at + stride), lora_at(at + 2u * stride), lora_at(at + 3u * stride)));
}
