/** Kernels: WGSL text with named operands. */

import { ServiceError } from "../core/errors.ts";
import type { Tensor } from "./tensor.ts";
import { type TexturedNames, type TextureFormat, withTextures } from "./textures.ts";

type ParamType = "u32" | "i32" | "f32";

/** Workgroups along x, y and z; trailing ones may be left out. */
export type Grid = readonly [number, number?, number?];

/**
 * How a software adapter reads or writes an operand through a texture (`textures.ts`).
 *
 * - a number: how often each number of an input is read, which may follow from the grid, so that a tensor of too few is not
 *   copied. Of an output, which is read as it was before the dispatch, likewise.
 * - `kept`: an input that seldom changes.
 * - `halves`: the same for a tensor of f16. The text declares vectors of four f32, and the tensor must fit a texture.
 * - `stored`: an output whose texture is written with it, so that it need not be copied.
 */
export type TextureUse = number | ((grid: Grid) => number) | "kept" | "halves" | "stored";

/** A piece of WGSL, and its name in compile errors. */
export interface WgslPart {
  file: string;
  text: string;
}

/**
 * The argument of {@link defineKernel}. Bindings of group 0: 0 the parameters (a uniform struct of 4-byte scalars in
 * the order of `params`), then `inputs` (read-only storage), then `outputs` (read-write storage).
 */
export interface KernelSpec<P extends string, I extends string, O extends string> {
  name: string;
  wgsl: string | readonly WgslPart[];
  params: Readonly<Record<P, ParamType>>;
  inputs: readonly I[];
  outputs: readonly O[];
  /** What a software adapter reads or writes through textures; absent: nothing. */
  textures?: Readonly<Partial<Record<NoInfer<I | O>, TextureUse>>>;
}

export interface Kernel<P extends string = string, I extends string = string, O extends string = string>
  extends KernelSpec<P, I, O> {
  /** Unique in the process; a key of the caches. */
  readonly id: number;
}

/** The tensors of a kernel, by name. */
export type Operands<K> = K extends Kernel<string, infer I, infer O> ? Readonly<Record<I | O, Tensor>>
  : never;

/** The parameters of a kernel, by name. */
export type Params<K> = K extends Kernel<infer P, string, string> ? Readonly<Record<P, number>> : never;

let next_id = 1;

/**
 * A kernel. Each device compiles it at its first dispatch, so a mistake in its text is found then.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 *
 * const double = defineKernel({
 *   name: "double",
 *   wgsl: `
 *     struct Params { count: u32 }
 *     @group(0) @binding(0) var<uniform> params: Params;
 *     @group(0) @binding(1) var<storage, read> x: array<f32>;
 *     @group(0) @binding(2) var<storage, read_write> y: array<f32>;
 *     @compute @workgroup_size(64)
 *     fn main(@builtin(global_invocation_id) id: vec3<u32>) {
 *       if id.x < params.count { y[id.x] = 2.0 * x[id.x]; }
 *     }`,
 *   params: { count: "u32" },
 *   inputs: ["x"],
 *   outputs: ["y"],
 * });
 * // A recorder runs it: recorder.dispatch(double, { count }, { x, y }, [Math.ceil(count / 64)]).
 * assert.match(kernelText(double), /@workgroup_size\(64\)/);
 * ```
 */
export function defineKernel<const P extends string, const I extends string, const O extends string>(
  spec: KernelSpec<P, I, O>,
): Kernel<P, I, O> {
  return { ...spec, id: next_id++ };
}

/** The kernel's full text. */
export function kernelText(kernel: Kernel): string {
  return typeof kernel.wgsl === "string" ? kernel.wgsl : kernel.wgsl.map((part) => part.text).join("\n");
}

const formats_by_kernel = new Map<number, ReadonlyMap<string, TextureFormat>>();

/** The formats of all textures that a kernel can have, by operand. */
export function textureFormats(kernel: Kernel): ReadonlyMap<string, TextureFormat> {
  let formats = formats_by_kernel.get(kernel.id);
  if (!formats) {
    ({ formats } = withTextures(kernelText(kernel), texturesOf(kernel, Object.keys(kernel.textures ?? {}))));
    formats_by_kernel.set(kernel.id, formats);
  }
  return formats;
}

/** Which of these operands have textures, as {@link withTextures} wants it. Outputs' textures come after all else. */
function texturesOf({ inputs, outputs, textures = {} }: Kernel, names: readonly string[]): TexturedNames {
  const besides = outputs.filter((name) => names.includes(name)), first = 1 + inputs.length + outputs.length;
  return {
    inputs: new Map(
      inputs.filter((name) => names.includes(name)).map((name) => [name, textures[name] === "halves"]),
    ),
    outputs: new Map(
      besides.map((name, i) => [
        name,
        { use: textures[name] === "stored" ? "stored" : "before", binding: first + i },
      ]),
    ),
  };
}

export interface CompiledKernel {
  pipeline: GPUComputePipeline;
  layout: GPUBindGroupLayout;
  params_bytes: number;
  /** The operands that are bound as textures: inputs instead of their buffers, outputs besides, after all others. */
  formats: ReadonlyMap<string, TextureFormat>;
}

/** Compiled kernels of a device by id, and the first kernel that failed to compile. */
interface Compiled {
  kernels: Map<number | string, CompiledKernel>;
  failure: ServiceError | null;
}

const compiled_by_device = new WeakMap<GPUDevice, Compiled>();

function compiledFor(device: GPUDevice): Compiled {
  let compiled = compiled_by_device.get(device);
  if (!compiled) compiled_by_device.set(device, compiled = { kernels: new Map(), failure: null });
  return compiled;
}

/**
 * A kernel's pipeline on a device, compiled at the first call; see {@link compileFailure}.
 *
 * @param textured The operands of {@link KernelSpec.textures} that are bound as textures.
 */
export function compiledKernel(
  device: GPUDevice,
  kernel: Kernel,
  textured: readonly string[] = [],
): CompiledKernel {
  const { kernels } = compiledFor(device),
    key = textured.length === 0 ? kernel.id : `${kernel.id}:${textured}`;
  let compiled = kernels.get(key);
  if (!compiled) kernels.set(key, compiled = compileKernel(device, kernel, textured));
  return compiled;
}

/** Why a kernel of this device failed to compile, with file and line; known once the device has answered. */
export function compileFailure(device: GPUDevice): ServiceError | null {
  return compiledFor(device).failure;
}

function compileKernel(device: GPUDevice, kernel: Kernel, textured: readonly string[]): CompiledKernel {
  const names = texturesOf(kernel, textured), { text, formats } = withTextures(kernelText(kernel), names);
  const params_bytes = Math.max(16, Math.ceil(Object.keys(kernel.params).length / 4) * 16);
  const entries: GPUBindGroupLayoutEntry[] = [{
    binding: 0,
    visibility: GPUShaderStage.COMPUTE,
    buffer: { type: "uniform", hasDynamicOffset: true, minBindingSize: params_bytes },
  }];
  for (const [list, type] of [[kernel.inputs, "read-only-storage"], [kernel.outputs, "storage"]] as const) {
    for (const name of list) {
      const format = type === "storage" ? undefined : formats.get(name);
      const bound = format
        ? { storageTexture: { access: "read-only", format: format.format } } as const
        : { buffer: { type } };
      entries.push({ binding: entries.length, visibility: GPUShaderStage.COMPUTE, ...bound });
    }
  }
  for (const [name, { use }] of names.outputs) {
    const { format } = formats.get(name)!, access = use === "stored" ? "write-only" : "read-only";
    const storageTexture = { access, format } as const;
    entries.push({ binding: entries.length, visibility: GPUShaderStage.COMPUTE, storageTexture });
  }
  const layout = device.createBindGroupLayout({ label: kernel.name, entries });
  device.pushErrorScope("validation");
  const module = device.createShaderModule({ label: kernel.name, code: text });
  const pipeline = device.createComputePipeline({
    label: kernel.name,
    layout: device.createPipelineLayout({ bindGroupLayouts: [layout] }),
    compute: { module, entryPoint: "main" },
  });
  void device.popErrorScope().then((error) => {
    if (error) compiledFor(device).failure ??= compileError(kernel, error.message);
  });
  return { pipeline, layout, params_bytes, formats };
}

/** The compiler's message with its line converted to a part's file and line. */
function compileError(kernel: Kernel, message: string): ServiceError {
  const parts = typeof kernel.wgsl === "string"
    ? [{ file: `${kernel.name}.wgsl`, text: kernel.wgsl }]
    : kernel.wgsl;
  // Deno writes "wgsl:3:10", Dawn ":3:10 error".
  const at = /(?:wgsl|\s):(\d+):(\d+)/.exec(message);
  let place = parts[0]?.file ?? kernel.name;
  if (at) {
    let line = Number(at[1]);
    for (const part of parts) {
      const lines = part.text.split("\n").length;
      if (line <= lines) {
        place = `${part.file}:${line}:${at[2]}`;
        break;
      }
      line -= lines;
    }
  }
  return new ServiceError("internal", `Cannot compile kernel ${kernel.name} at ${place}: ${message}`);
}
