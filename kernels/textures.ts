/**
 * Operands that kernels for software adapters read through textures. llvmpipe loads from a buffer lane by lane, and writes
 * each number into its vector through memory; it loads from a texture for all lanes at once. The textures are storage
 * textures, because a load from a sampled one computes the size of a mip level for each lane. docs/decisions/
 * software_kernels.md has the figures. A kernel's text is the same for both; this file makes the texture's from the
 * buffer's. The bits are the same too.
 */

import { assert } from "../core/errors.ts";

/** How a texture holds an array: a texel is an element. */
export interface TextureFormat {
  readonly format: GPUTextureFormat;
  readonly texel_bytes: number;
}

/** A texel of four halves, which is read as four f32. */
export const HALVES: TextureFormat = {
  format: "rgba16float",
  texel_bytes: 8,
};

/** Texels of a texture's row that are of use, as a power of two. */
const ROW_BITS = 8;

/** The most rows, which every device allows, as a power of two. */
const MOST_ROWS_BITS = 13;

/** Texels of a row that are of use. */
export const ROW_TEXELS = 2 ** ROW_BITS;

/** The most rows of a texture. */
export const MOST_ROWS = 2 ** MOST_ROWS_BITS;

/** The most texels of a row with all blocks, which every device allows. */
const MOST_COLUMNS = 8192;

/** Texels that a block of rows takes. After those of use comes a line of the cache, see {@link placeOf}. */
export function blockTexels({ texel_bytes }: TextureFormat): number {
  return ROW_TEXELS + 64 / texel_bytes;
}

/** The most bytes of a tensor that a texture holds. */
export function textureBytes(format: TextureFormat): number {
  return Math.floor(MOST_COLUMNS / blockTexels(format)) * MOST_ROWS * ROW_TEXELS * format.texel_bytes;
}

/**
 * The expression for the texel of element i. Elements fill rows of ROW_TEXELS, and blocks of MOST_ROWS rows lie side by side.
 * Rows of a matrix are often a multiple of 1 KiB apart, and lanes that read one element of each would compete for a few lines
 * of the processor's cache; the line after each row of texels moves the next row to other ones.
 */
function placeOf(format: TextureFormat): string {
  const block = `(i >> ${ROW_BITS + MOST_ROWS_BITS}u) * ${blockTexels(format)}u`;
  return `vec2<u32>((i & ${ROW_TEXELS - 1}u) + ${block}, (i >> ${ROW_BITS}u) & ${MOST_ROWS - 1}u)`;
}

/** A kernel's text with textures, and their formats by operand. */
export interface TexturedText {
  text: string;
  formats: ReadonlyMap<string, TextureFormat>;
}

/** What an output has besides its buffer: a texture that is stored with it, or one of the numbers that it had before. */
export interface OutputTexture {
  use: "stored" | "before";
  binding: number;
}

/** The operands with textures: the inputs, and whether a texel has halves; the outputs. */
export interface TexturedNames {
  inputs: ReadonlyMap<string, boolean>;
  outputs: ReadonlyMap<string, OutputTexture>;
}

/**
 * Turns inputs from storage buffers into textures, and gives outputs a texture besides. The declaration of an input `x` becomes
 * a texture with a function `x_at`, and every `x[i]` becomes `x_at(i)`. Of an output that is `stored`, every `y[i] = v;`
 * becomes `y_put(i, v);`, which stores in both; of one that is read as it was `before`, every other `y[i]` becomes `y_at(i)`.
 * Lines stay where they are, so that the compiler's errors name the right ones.
 *
 * @param names All are declared as arrays of 32-bit numbers, or of vectors of 2 or 4 of them. Nothing but `y[i] = v;` changes an
 * output, and no thread reads a number of one that is read as it was before after it was stored in the same dispatch. No
 * variable of a function that is indexed has such a name.
 * @throws {Error} When an operand is not declared so, or a stored one is changed in another way.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 *
 * const { text, formats } = withTextures(
 *   "@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;\nfn first(i: u32) -> f32 { return x[2u * i].x; }",
 *   { inputs: new Map([["x", false]]), outputs: new Map() },
 * );
 * assert.match(text, /var x: texture_storage_2d<rgba32float, read>;/);
 * assert.match(text, /return x_at\(2u \* i\)\.x;/);
 * assert.equal(formats.get("x")!.format, "rgba32float");
 * ```
 */
export function withTextures(
  text: string,
  { inputs, outputs }: TexturedNames,
): TexturedText {
  const formats = new Map<string, TextureFormat>();
  // Comments have formulas with brackets.
  if (inputs.size + outputs.size > 0) text = text.replace(/\/\/.*$/gm, "");
  for (const [name, has_halves] of inputs) {
    const found = findArray(text, name, "read");
    if (has_halves) found.format = HALVES;
    formats.set(name, found.format);
    text = text.replace(found.declaration, `var ${name}: ${reader(name, name, found)}`);
    text = replaceIndexing(text, name, (_, index) => [`${name}_at(${index})`, 0]);
  }
  for (const [name, { use, binding }] of outputs) {
    const found = findArray(text, name, "read_write"),
      texture = `@group(0) @binding(${binding}) var ${name}_texture`;
    formats.set(name, found.format);
    text = (use === "before" ? readBefore(text, name) : putInBoth(text, name)).replace(
      found.declaration,
      use === "before"
        ? `${found.declaration} ${texture}: ${reader(name, `${name}_texture`, found)}`
        : `${found.declaration} ${texture}: ${writer(name, found)}`,
    );
  }
  return { text, formats };
}

/** Every `y[i]` that is not stored to becomes `y_at(i)`. */
function readBefore(text: string, name: string): string {
  return replaceIndexing(
    text,
    name,
    (rest, index) => rest.startsWith(" = ") ? null : [`${name}_at(${index})`, 0],
  );
}

/** Every `y[i] = v;` becomes `y_put(i, v);`. */
function putInBoth(text: string, name: string): string {
  return replaceIndexing(text, name, (rest, index) => {
    const stored = /^ = ([^;]*);/.exec(rest);
    if (stored) return [`${name}_put(${index}, ${stored[1]});`, stored[0].length];
    const is_changed = /^(?:\.\w+)?\s*(?:[-+*/%&|^]|<<|>>)?=(?!=)/.test(rest);
    assert(!is_changed, `${name} is stored by "${name}[i] = v;" alone`);
    return null;
  });
}

/** A texture's type, and the function that reads an operand's elements from it. */
function reader(name: string, texture: string, { type, components, format }: FoundArray): string {
  const taken = components === 4 ? "" : `.${"xyzw".slice(0, components)}`;
  return `texture_storage_2d<${format.format}, read>; ` +
    `fn ${name}_at(i: u32) -> ${type} { return textureLoad(${texture}, ${placeOf(format)})${taken}; }`;
}

/** The type of a texture that is stored with an output, and the function that stores in both. */
function writer(name: string, { type, kind, components, format }: FoundArray): string {
  const texel = components === 4 ? "v" : `vec4<${kind}>(v${`, ${kind}()`.repeat(4 - components)})`;
  return `texture_storage_2d<${format.format}, write>; fn ${name}_put(i: u32, v: ${type}) ` +
    `{ ${name}[i] = v; textureStore(${name}_texture, ${placeOf(format)}, ${texel}); }`;
}

/** The declaration of an array of the group, and what its elements are. */
interface FoundArray {
  declaration: string;
  type: string;
  kind: "f32" | "u32";
  components: keyof typeof CHANNELS;
  format: TextureFormat;
}

function findArray(text: string, name: string, access: "read" | "read_write"): FoundArray {
  const declared = new RegExp(`var<storage, ${access}> ${name}: array<([\\w<>]+)>;`).exec(text);
  assert(declared !== null, `an operand ${name}`);
  const [declaration, type] = declared as unknown as [string, string];
  const element = new RegExp(`alias ${type} = ([\\w<>]+);`).exec(text)?.[1] ?? type;
  const parts = /^(?:vec([24])<)?([fu]32)>?$/.exec(element);
  assert(parts !== null, `elements of ${name} that a texture holds`);
  const kind = parts[2] as "f32" | "u32", components = Number(parts[1] ?? 1) as keyof typeof CHANNELS;
  const format: TextureFormat = {
    format: `${CHANNELS[components]}32${kind === "f32" ? "float" : "uint"}`,
    texel_bytes: 4 * components,
  };
  return { declaration, type, kind, components, format };
}

const CHANNELS = { 1: "r", 2: "rg", 4: "rgba" } as const;

/**
 * Replaces uses `name[index]`.
 *
 * @param replace Gets the text after a use and its index, and returns what stands for it and how much of the text after it;
 * null: it stays.
 */
function replaceIndexing(
  text: string,
  name: string,
  replace: (rest: string, index: string) => [string, number] | null,
): string {
  const use = new RegExp(`(?<![.\\w])${name}\\[`, "g");
  for (let found = use.exec(text); found; found = use.exec(text)) {
    const open = found.index + name.length;
    let depth = 1, close = open;
    while (depth > 0) {
      close++;
      assert(close < text.length, `a bracket after ${name} closes`);
      depth += text[close] === "[" ? 1 : text[close] === "]" ? -1 : 0;
    }
    const replaced = replace(text.slice(close + 1), text.slice(open + 1, close));
    if (!replaced) continue;
    text = text.slice(0, found.index) + replaced[0] + text.slice(close + 1 + replaced[1]);
    // An index may use the array itself.
    use.lastIndex = found.index;
  }
  return text;
}
