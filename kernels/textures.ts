/**
 * Inputs that kernels for software adapters read through textures. llvmpipe loads from a buffer lane by lane, and writes
 * each number into its vector through memory; it loads from a texture for all lanes at once. docs/decisions/
 * software_kernels.md has the figures. A kernel's text is the same for both; this file makes the texture's from the
 * buffer's. The bits are the same too.
 */

import { assert } from "../core/errors.ts";

/** How a texture holds an array: a texel is an element. */
export interface TextureFormat {
  readonly format: GPUTextureFormat;
  readonly sample_type: GPUTextureSampleType;
  readonly texel_bytes: number;
}

/** Texels of a texture's row, as a power of two: element i is at (i mod 2^ROW_BITS, i / 2^ROW_BITS). */
const ROW_BITS = 13;

/** Texels of a complete row, which every device allows. */
export const ROW_TEXELS = 2 ** ROW_BITS;

/** The most rows, which every device allows. */
const MOST_ROWS = 8192;

/** The most bytes of a tensor that a texture holds. */
export function textureBytes({ texel_bytes }: TextureFormat): number {
  return ROW_TEXELS * MOST_ROWS * texel_bytes;
}

const COMPONENTS = { 1: ["r32", ".x"], 2: ["rg32", ".xy"], 4: ["rgba32", ""] } as const;

/** The elements of arrays that a texture can hold: numbers and vectors of 32-bit numbers. */
function elementOf(type: string): { kind: "f32" | "u32"; components: 1 | 2 | 4 } | null {
  const vector = /^(?:vec([24])<)?([fu]32)>?$/.exec(type);
  if (!vector) return null;
  return { kind: vector[2] as "f32" | "u32", components: Number(vector[1] ?? 1) as 1 | 2 | 4 };
}

/** A kernel's text with these inputs as textures, and their formats. */
export interface TexturedText {
  text: string;
  formats: ReadonlyMap<string, TextureFormat>;
}

/**
 * Turns inputs from storage buffers into textures: the declaration of `x` becomes a texture with a function `x_at`, and
 * every `x[i]` becomes `x_at(i)`.
 *
 * @param names Inputs that are declared as arrays of 32-bit numbers, or of vectors of 2 or 4 of them. No variable of a
 * function that is indexed has such a name.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 *
 * const { text, formats } = readTextures(
 *   "@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;\nfn first(i: u32) -> f32 { return x[2u * i].x; }",
 *   ["x"],
 * );
 * assert.match(text, /var x: texture_2d<f32>;/);
 * assert.match(text, /return x_at\(2u \* i\)\.x;/);
 * assert.equal(formats.get("x")!.format, "rgba32float");
 * ```
 */
export function readTextures(text: string, names: readonly string[]): TexturedText {
  const formats = new Map<string, TextureFormat>();
  for (const name of names) {
    const declared = new RegExp(`var<storage, read> ${name}: array<([\\w<>]+)>;`).exec(text);
    assert(declared !== null, `an input ${name}`);
    const type = declared[1]!, alias = new RegExp(`alias ${type} = ([\\w<>]+);`).exec(text)?.[1];
    const element = elementOf(alias ?? type);
    assert(element !== null, `${name} has elements that a texture holds`);
    const { kind, components } = element, [channels, taken] = COMPONENTS[components];
    formats.set(name, {
      format: `${channels}${kind === "f32" ? "float" : "uint"}`,
      sample_type: kind === "f32" ? "unfilterable-float" : "uint",
      texel_bytes: 4 * components,
    });
    const at = `vec2<u32>(i & ${ROW_TEXELS - 1}u, i >> ${ROW_BITS}u)`;
    // On the declaration's line, so that errors of the compiler name the right one.
    const reader = `var ${name}: texture_2d<${kind}>; ` +
      `fn ${name}_at(i: u32) -> ${type} { return textureLoad(${name}, ${at}, 0)${taken}; }`;
    text = replaceIndexing(text.replace(declared[0], reader), name);
  }
  return { text, formats };
}

/** Replaces every `name[…]` by `name_at(…)`. */
function replaceIndexing(text: string, name: string): string {
  const use = new RegExp(`(?<![.\\w])${name}\\[`);
  for (let found = use.exec(text); found; found = use.exec(text)) {
    const open = found.index + name.length;
    let depth = 1, close = open;
    while (depth > 0) {
      close++;
      assert(close < text.length, `a bracket after ${name} closes`);
      depth += text[close] === "[" ? 1 : text[close] === "]" ? -1 : 0;
    }
    text = `${text.slice(0, open)}_at(${text.slice(open + 1, close)})${text.slice(close + 1)}`;
  }
  return text;
}
