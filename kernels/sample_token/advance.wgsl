// One step of the state of decoding, after sampling a token for every row: a thread owns a row.
//
//   ends[b] = token[b] ∈ stop_tokens[b] or remaining[b] = 1
//   token_position[b] = position[b], position[b] += 1, remaining[b] −= 1, slots[b] ← NONE where ends[b]
//
//   A row whose slot is NONE had already ended: its state does not change, and its output is NONE. Otherwise the token
//   and its position are written, and the row ends if the token is a stop token or the last allowed one.
//
//   params          rows B, step, steps K
//   token           [B] u32         in, sampled
//   logprob         [B] f32         in
//   stop_tokens     [B, 8] u32      in, padded with NONE
//   position        [B] u32         in and out: the position of the token to sample next
//   token_position  [B] u32         out: the position of the token just sampled
//   remaining       [B] u32         in and out: tokens that may still be sampled
//   slots           [B] u32         in and out: NONE when the row has ended
//   out             [2, K, B] u32   out, overwritten for this step: tokens, bits of their log-probabilities
//
// Dispatch: ceil(B / 64) workgroups.

struct Params { rows: u32, step: u32, steps: u32 }

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> token: array<u32>;
@group(0) @binding(2) var<storage, read> logprob: array<f32>;
@group(0) @binding(3) var<storage, read> stop_tokens: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read_write> position: array<u32>;
@group(0) @binding(5) var<storage, read_write> token_position: array<u32>;
@group(0) @binding(6) var<storage, read_write> remaining: array<u32>;
@group(0) @binding(7) var<storage, read_write> slots: array<u32>;
@group(0) @binding(8) var<storage, read_write> out: array<u32>;

const NONE = 0xffffffffu;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let b = id.x;
  if b >= params.rows { return; }
  let place = params.step * params.rows + b;
  let plane = params.steps * params.rows;
  if slots[b] == NONE {
    out[place] = NONE;
    out[plane + place] = NONE;
    return;
  }
  let sampled = vec4<u32>(token[b]);
  out[place] = sampled.x;
  out[plane + place] = bitcast<u32>(logprob[b]);
  token_position[b] = position[b];
  position[b] += 1u;
  remaining[b] -= 1u;
  if remaining[b] == 0u || any(sampled == stop_tokens[2u * b]) || any(sampled == stop_tokens[2u * b + 1u]) {
    slots[b] = NONE;
  }
}
