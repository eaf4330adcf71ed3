import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { assumedGpu } from "./assumed_gpu.ts";
import { MAX_HEAD_WIDTH } from "./attention/attention.ts";
import { NEEDED_LIMITS, SOFTWARE_LIMITS, SUBGROUP_MATRIX } from "./device.ts";
import { everyKernel, type KernelShapes } from "./every_kernel_testing.ts";
import { type Kernel, kernelText, textureFormats } from "./kernel.ts";

/** The limits to test with; {@link NEEDED_LIMITS} are the minimum for opening a device. */
const MAX_WORKGROUP_BYTES = NEEDED_LIMITS.maxComputeWorkgroupStorageSize!;
const MAX_WORKGROUP_SIZE = NEEDED_LIMITS.maxComputeInvocationsPerWorkgroup!;
const MAX_STORAGE_BUFFERS = NEEDED_LIMITS.maxStorageBuffersPerShaderStage!;
const MAX_STORAGE_TEXTURES = SOFTWARE_LIMITS.maxStorageTexturesPerShaderStage!;

const ROOT = new URL(".", import.meta.url);
const BYTES: Record<string, number> = {
  f32: 4,
  u32: 4,
  "vec2<f32>": 8,
  "vec4<f32>": 16,
  "vec4<u32>": 16,
  "vec4<f16>": 8,
};

/** The kernels that such a device runs, for all widths of models. */
function kernelsOf(software: boolean, subgroup_size: number, features: string[] = []): Kernel[] {
  const heads: KernelShapes["heads"][number][] = [];
  const step = software ? 64 : 4;
  for (let width = step; width <= MAX_HEAD_WIDTH; width += step) {
    for (const group of software ? [7] : [1, 2, 7, 16]) heads.push({ width, group });
    heads.push({ width, group: 7, rules: { window: 9, soft_cap: 50 } });
  }
  const { facts: assumed } = assumedGpu();
  const card = {
    facts: { ...assumed, features: [...assumed.features, ...features], software },
    subgroup_size,
  };
  const shapes = { heads, widths: [3, 64, 2050, 4096], vocabularies: [131, 1024] };
  return [...everyKernel(card, shapes).keys()];
}

/** The value of a WGSL product of integers and constants that the text declares. */
function valueOf(text: string, expression: string): number {
  return expression.split("*").reduce((product, factor) => {
    const name = factor.trim(), number = /^(\d+)u?$/.exec(name);
    if (number) return product * Number(number[1]);
    const constant = new RegExp(`^const ${name} = (.+);`, "m").exec(text);
    assert.ok(constant, `a constant ${name}`);
    return product * valueOf(text, constant[1]!);
  }, 1);
}

/** Of a type, which may be an array of arrays, or have a name that the text declares. */
function bytesOf(text: string, type: string): number {
  const array = /^array<(.+), (.+)>$/.exec(type);
  if (array) return bytesOf(text, array[1]!) * valueOf(text, array[2]!);
  const alias = /^\w+$/.test(type) && new RegExp(`^alias ${type} = (.+);`, "m").exec(text);
  return alias ? bytesOf(text, alias[1]!) : BYTES[type]!;
}

function workgroupBytes(text: string): number {
  const all = [...text.matchAll(/^var<workgroup> \w+: (array<.+>);$/gm)];
  assert.equal(
    text.split("var<workgroup>").length - 1,
    all.length,
    "every declaration is an array of its line",
  );
  return all.reduce((sum, [, type]) => sum + bytesOf(text, type!), 0);
}

function expectWithinLimits(name: string, text: string): void {
  const bytes = workgroupBytes(text);
  assert.ok(bytes <= MAX_WORKGROUP_BYTES, `${name} takes ${bytes} bytes of workgroup memory`);
  const size = /@workgroup_size\((.+?)\)/.exec(text)![1]!.split(",").map((part) => valueOf(text, part));
  assert.ok(size.reduce((a, b) => a * b) <= MAX_WORKGROUP_SIZE, `${name} has a workgroup of ${size}`);
  const buffers = text.split("var<storage").length - 1;
  assert.ok(buffers <= MAX_STORAGE_BUFFERS, `${name} binds ${buffers} storage buffers`);
  assert.doesNotMatch(text, /^\s*enable (?!f16;)/m, `${name} needs no extension of the language but f16`);
  // A directive comes before everything but comments.
  const begins = text.replace(/\/\/.*$/gm, "").trimStart().startsWith("enable f16;");
  assert.equal(begins, /<f16>/.test(text), `${name} begins with enable f16; where it uses f16`);
}

const kernels = [
  ...kernelsOf(true, 8),
  ...kernelsOf(true, 0),
  ...kernelsOf(false, 32),
  ...kernelsOf(false, 32, [SUBGROUP_MATRIX]),
];

Deno.test("every kernel keeps within the limits that a device is opened with", () => {
  assert.ok(MAX_WORKGROUP_BYTES <= 16_384 && MAX_WORKGROUP_SIZE <= 256 && MAX_STORAGE_BUFFERS <= 10);
  for (const kernel of new Set(kernels)) {
    const text = kernelText(kernel);
    expectWithinLimits(kernel.name, text);
    const bound = kernel.inputs.length + kernel.outputs.length;
    assert.equal(text.split("var<storage").length - 1, bound, `${kernel.name} declares what it binds`);
  }
});

Deno.test("every kernel's textures keep within what software adapters need", () => {
  let most = 0;
  for (const kernel of new Set(kernels.filter(({ textures }) => textures))) {
    const names = Object.keys(kernel.textures!);
    assert.deepEqual([...textureFormats(kernel).keys()].sort(), names.sort(), kernel.name);
    assert.ok(names.length <= MAX_STORAGE_TEXTURES, `${kernel.name} has ${names.length} textures`);
    most = Math.max(most, names.length);
  }
  assert.equal(most, 8);
});

Deno.test("every shader's file is in a kernel whose limits are tested", () => {
  const files = readdirSync(ROOT, { recursive: true, encoding: "utf8" }).filter((f) => f.endsWith(".wgsl"));
  const texts = kernels.map(kernelText);
  for (const file of files) {
    const text = Deno.readTextFileSync(new URL(file, ROOT));
    // A device is probed before there are kernels, so the probe's text belongs to no kernel.
    if (file.endsWith("subgroup_probe.wgsl")) expectWithinLimits(file, text);
    else {
      const header = /^\/\/ [^\n{]+/.exec(text)![0];
      assert.ok(texts.some((whole) => whole.includes(header)), `a kernel with the text of ${file}`);
    }
  }
});
