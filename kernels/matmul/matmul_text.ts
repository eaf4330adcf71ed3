/** The parts that both forms of the matmul's text share. */

import type { WgslPart } from "../kernel.ts";
import { WEIGHT_TYPES, type WeightTypeName } from "../weights/table.ts";

/** What is decided when the text is made. */
export interface MatmulForm {
  weight: WeightTypeName;
  /** `nt`: y = x · Wᵀ. `nn`: y = x · W. */
  orientation: "nt" | "nn";
  /** f16: both operands are rounded to f16, ±65,504 at most, before they are multiplied; sums stay f32. */
  compute: "f32" | "f16";
}

/** The largest finite f16: a larger operand would become infinite, and its product with 0 not a number. */
const MAX_F16 = "65504.0";

/** The weight's reader and bindings, then every other binding in the order of the kernel's operands. */
export function matmulParts(form: MatmulForm): WgslPart[] {
  const { planes, wgsl } = WEIGHT_TYPES[form.weight], first = 1 + planes.length;
  const round = form.compute === "f16"
    ? `quantizeToF16(clamp(v, vec4<f32>(-${MAX_F16}), vec4<f32>(${MAX_F16})))`
    : "v";
  return [wgsl, {
    file: "matmul_text.ts",
    text: `
struct Params {
  rows: u32, columns: u32, depth: u32,
  rank: u32, u_stride: u32, u_column: u32, lora_scale: f32,
  addend: u32, // 0: none, 1: residual, 2: y itself
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(${first}) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(${first + 1}) var<storage, read> u: array<vec4<f32>>;
@group(0) @binding(${first + 2}) var<storage, read> lora: array<vec4<f32>>;
@group(0) @binding(${first + 3}) var<storage, read> residual: array<vec4<f32>>;
@group(0) @binding(${first + 4}) var<storage, read_write> y: array<vec4<f32>>;

fn operand(v: vec4<f32>) -> vec4<f32> { return ${round}; }

fn load_x(row: u32, d: u32) -> vec4<f32> { return operand(x[row * (params.depth / 4u) + d]); }

fn load_u(row: u32, d: u32) -> vec4<f32> {
  return operand(params.lora_scale * u[(row * params.u_stride + params.u_column) / 4u + d]);
}

fn store(row: u32, column4: u32, sum: vec4<f32>) {
  let columns4 = params.columns / 4u;
  if row >= params.rows || column4 >= columns4 { return; }
  let at = row * columns4 + column4;
  if params.addend == 1u { y[at] = residual[at] + sum; }
  else if params.addend == 2u { y[at] += sum; }
  else { y[at] = sum; }
}
`,
  }];
}

/** Numbers 0 … count − 1, to write unrolled text. */
export const range = (count: number): number[] => Array.from({ length: count }, (_, i) => i);
