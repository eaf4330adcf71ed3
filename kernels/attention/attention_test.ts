import assert from "node:assert/strict";
import type { Gpu } from "../device.ts";
import { centralDifferences, expectClose, filled, gpuTest, randomNormal, run } from "../gpu_testing.ts";
import { attentionBackward, attentionForward } from "./attention.ts";
import { roundUp } from "../shape.ts";
import type { FormOptions } from "../variant.ts";
import { attentionRowAlignment } from "./attention_plan.ts";
import { type AttentionCase, CASES } from "./attention_cases.ts";
import { attentionBackwardReference, attentionReference } from "./attention_reference.ts";
import { packRows } from "./packed_rows.ts";

const FORMS: readonly FormOptions[] = [
  { form: "lanes" },
  { form: "lanes", lanes: 1 },
  { form: "tiles" },
];
const OUTPUTS = ["o", "lse", "d_q", "d_k", "d_v"] as const;
/**
 * Shapes to skip because they test nothing new and take seconds to compile: a single lane runs the text of several with
 * another number, 32 is to tiles what 64 and 128 are, and 256 is to lanes what 128 is.
 */
const says = ({ form, lanes }: FormOptions, width: number) =>
  form === "tiles" ? width !== 32 : width <= (lanes === 1 ? 16 : 128);

const title = ({ form, lanes }: FormOptions) => `attention (${form}${lanes ? ", alone" : ""})`;

/** Rules that affect every score even with a few rows. */
const RULES = { window: 2, soft_cap: 1.5 };

/** True for rows between segments. */
const isPadding = (rows: Uint32Array, i: number, alignment: number) =>
  rows[4 * i + 2] === i && i % alignment !== 0;

function inputs(shape: AttentionCase, alignment: number) {
  const { heads, kv_heads, width, groups, size, window = null, soft_cap = null } = shape;
  const packed = packRows(groups, alignment);
  // The last segment's padding is left out: the number of rows is not a multiple of the alignment.
  const ends = packed.groups.flatMap((group) => [group.prompt, ...group.members]).map((s) =>
    s.start + s.length
  );
  const count = Math.max(...ends), rows = packed.rows.subarray(0, 4 * count);
  const values = (seed: number, per_row: number) => randomNormal(seed, count * per_row * width);
  const q = values(1, heads).map((x) => Math.fround(x * size));
  const d_o = values(4, heads);
  for (let i = 0; i < count; i++) {
    if (isPadding(rows, i, alignment)) d_o.fill(0, i * heads * width, (i + 1) * heads * width);
  }
  const scale = Math.fround(1 / Math.sqrt(width));
  const keys = { k: values(2, kv_heads), v: values(3, kv_heads) };
  return { heads, kv_heads, width, scale, window, soft_cap, rows, q, ...keys, d_o };
}

type Inputs = ReturnType<typeof inputs>;

/** Forward and backward in one submission; every output starts with arbitrary values. */
async function runBoth(gpu: Gpu, given: Inputs, options: FormOptions) {
  const { heads: H, kv_heads: K, width: D, q, k, v, d_o, rows, scale, window, soft_cap } = given;
  const rules = { scale, window, soft_cap };
  const N = rows.length / 4;
  return await run(gpu, {
    q: [q, [N, H, D]],
    k: [k, [N, K, D]],
    v: [v, [N, K, D]],
    d_o: [d_o, [N, H, D]],
    rows: [rows, [N, 4], "u32"],
    o: filled(NaN, N, H, D),
    lse: filled(NaN, N, H),
    delta: filled(NaN, N, H),
    d_q: filled(NaN, N, H, D),
    d_k: filled(NaN, N, K, D),
    d_v: filled(NaN, N, K, D),
  }, (recorder, t) => {
    attentionForward(recorder, t, rules, options);
    attentionBackward(recorder, t, rules, options);
  });
}

/** A sequence after prompts of other lengths has the same bits as alone. */
async function expectBitsAnywhere(
  gpu: Gpu,
  options: FormOptions,
  window: number | undefined,
): Promise<void> {
  const alignment = attentionRowAlignment(gpu, options), length = 70;
  const inTree = (prompt: number, ...members: number[]) =>
    inputs({ ...CASES[1]!, groups: [{ prompt, members }], ...(window ? { window } : {}) }, alignment);
  const alone = inTree(0, length);
  const expected = await runBoth(gpu, alone, options);
  for (const prompt of [31, 45]) {
    const tree = inTree(prompt, length - prompt, 3);
    const start = roundUp(prompt, alignment), rows = [...Array(length).keys()];
    const rowOf = (t: number) => t < prompt ? t : start + t - prompt;
    for (const name of ["q", "d_o", "k", "v"] as const) {
      const size = alone[name].length / length;
      for (const t of rows) tree[name].set(alone[name].subarray(t * size, (t + 1) * size), rowOf(t) * size);
    }
    const actual = await runBoth(gpu, tree, options);
    for (const name of ["o", "lse", "d_q"] as const) {
      const size = expected[name].length / length;
      const at = (t: number) => [...actual[name].subarray(rowOf(t) * size, (rowOf(t) + 1) * size)];
      assert.deepEqual(rows.flatMap(at), [...expected[name]], `${name} after a prompt of ${prompt}`);
    }
  }
}

for (const options of FORMS) {
  for (const shape of CASES) {
    if (!says(options, shape.width)) continue;
    gpuTest(`${title(options)} agrees with its f64 reference: ${shape.name}`, async (gpu) => {
      const given = inputs(shape, attentionRowAlignment(gpu, options));
      const actual = await runBoth(gpu, given, options);
      const expected = { ...attentionReference(given), ...attentionBackwardReference(given, given.d_o) };
      // Sums of up to 100 terms round to 1e-6 of their largest; exp has the error of an ulp of the score, up to 1e-4 of
      // a probability for scores in the thousands, and d_k is as large as q. A cap's tanh is accurate to 2^-23.
      const relative = 3e-6 + 1e-7 * shape.size + 2 ** -22 * (shape.soft_cap ?? 0);
      for (const name of OUTPUTS) {
        const absolute = relative * (name === "d_k" ? shape.size : 1);
        expectClose(actual[name], expected[name], { relative, absolute }, name);
      }
    });
  }

  gpuTest(`${title(options)}: a row's bits do not depend on other groups`, async (gpu) => {
    const alignment = attentionRowAlignment(gpu, options);
    const shape = { ...CASES[2]!, groups: [{ prompt: 21, members: [10, 35] }] };
    const alone = inputs(shape, alignment);
    const both = inputs({ ...shape, groups: [{ prompt: 9, members: [50, 3] }, ...shape.groups] }, alignment);
    const before = both.rows.length / 4 - alone.rows.length / 4;
    for (const [name, per_row] of [["q", 14], ["d_o", 14], ["k", 2], ["v", 2]] as const) {
      both[name].set(alone[name], before * per_row * shape.width);
    }
    const [few, many] = [await runBoth(gpu, alone, options), await runBoth(gpu, both, options)];
    for (const name of OUTPUTS) assert.deepEqual(many[name].subarray(-few[name].length), few[name], name);
  });

  for (const window of [undefined, 20]) {
    const name = `a row's bits do not depend on where its prompt ends${window ? ", with a window" : ""}`;
    gpuTest(`${title(options)}: ${name}`, (gpu) => expectBitsAnywhere(gpu, options, window));
  }

  gpuTest(`${title(options)}: padding affects no row, whatever it contains`, async (gpu) => {
    const alignment = attentionRowAlignment(gpu, options);
    for (const rules of [{}, { window: 6 }]) {
      const shape = { ...CASES[1]!, groups: [{ prompt: 5, members: [3, 9] }], ...rules };
      const given = inputs(shape, alignment);
      const count = given.rows.length / 4;
      const padding = Array.from({ length: count }, (_, i) => isPadding(given.rows, i, alignment));
      const withPadding = (value: number) => {
        const fill = (values: Float64Array) =>
          values.map((x, at) => padding[Math.floor(at * count / values.length)] ? value : x);
        return { ...given, q: fill(given.q), k: fill(given.k), v: fill(given.v) };
      };
      // 1e4 · 1e4 in a score: its exp overflows if the mask is applied too late.
      const [zeros, large] = [withPadding(0), withPadding(1e4)];
      const [expected, actual] = [await runBoth(gpu, zeros, options), await runBoth(gpu, large, options)];
      for (const name of OUTPUTS) {
        const real = (values: Float64Array) =>
          values.filter((_, at) => !padding[Math.floor(at * count / values.length)]);
        assert.deepEqual(real(actual[name]), real(expected[name]), name);
        assert.ok(actual[name].every(Number.isFinite), `${name} is finite in the padding too`);
      }
    }
  });
}

gpuTest("a window longer than all rows changes no bit", async (gpu) => {
  for (const options of FORMS) {
    const shape = { ...CASES[1]!, groups: [{ prompt: 13, members: [9, 34] }] };
    const given = inputs(shape, attentionRowAlignment(gpu, options));
    const [all, windowed] = [given, { ...given, window: 48 }].map((rules) => runBoth(gpu, rules, options));
    assert.deepEqual(await windowed, await all);
  }
});

gpuTest("attention's gradients agree with central differences of the reference", async (gpu) => {
  const plain = { ...CASES[0]!, groups: [{ prompt: 3, members: [2, 2] }], heads: 2 };
  for (
    const [options, shape] of FORMS.flatMap((o) => [[o, plain], [o, { ...plain, ...RULES }]] as const)
  ) {
    const given = inputs(shape, attentionRowAlignment(gpu, options));
    const actual = await runBoth(gpu, given, options);
    const loss = (changed: Partial<Inputs>) =>
      attentionReference({ ...given, ...changed }).o.reduce((sum, o, i) => sum + o * given.d_o[i]!, 0);
    for (const name of ["q", "k", "v"] as const) {
      const numeric = centralDifferences(given[name], (x) => loss({ [name]: x }));
      expectClose(actual[`d_${name}`], numeric, { relative: 1e-5, absolute: 1e-5 }, `d_${name}`);
    }
  }
});
