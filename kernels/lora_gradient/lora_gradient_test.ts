import assert from "node:assert/strict";
import type { Gpu } from "../device.ts";
import { ShapeError } from "../shape.ts";
import { centralDifferences, expectClose, filled, gpuTest, randomNormal, run } from "../gpu_testing.ts";
import { deviceOptions, type FormOptions } from "../variant.ts";
import { lanesParts, loraGradient, loraGradientPartials, splitGradient } from "./lora_gradient.ts";
import { CASES, type LoraGradientCase } from "./lora_gradient_cases.ts";
import { loraGradientReference } from "./lora_gradient_reference.ts";

const BEFORE = 0.5;
const ALPHA = 2;
const FORMS: readonly FormOptions[] = [{ form: "lanes" }, { form: "lanes", lanes: 1 }, { form: "tiles" }];

/** A sum of M products of normal numbers has a size of about √M and rounds to about √M · √M · 6e-8. */
const tolerance = (rows: number) => ({ relative: 1e-5, absolute: 1e-6 + rows * ALPHA * 6e-8 });

const inputs = ({ rows, columns, q_stride }: LoraGradientCase) => ({
  p: randomNormal(1, rows * columns),
  q: randomNormal(2, rows * q_stride),
});

type Given = ReturnType<typeof inputs>;

async function runBoth(gpu: Gpu, shape: LoraGradientCase, given: Given, forms: FormOptions) {
  const { rows, columns, rank, q_stride, q_offset } = shape;
  return await run(gpu, {
    p: [given.p, [rows, columns]],
    q: [given.q, [rows, q_stride]],
    b: filled(BEFORE, columns, rank),
    a: filled(BEFORE, rank, columns),
    partials: filled(NaN, Math.max(1, loraGradientPartials(shape, forms.form!))),
  }, (recorder, t) => {
    const options = { alpha: ALPHA, q_offset };
    loraGradient(recorder, { ...t, out: t.b }, { ...options, order: "column_rank" }, forms);
    loraGradient(recorder, { ...t, out: t.a }, { ...options, order: "rank_column" }, forms);
  });
}

/** `[P, R]` as `[R, P]`. */
const transpose = (x: Float64Array, columns: number, rank: number) =>
  x.map((_, i) => x[(i % columns) * rank + Math.floor(i / columns)]!);

for (const forms of FORMS) {
  const name = `lora_gradient (${forms.form}${forms.lanes ? ", alone" : ""})`;
  const lacks = (gpu: Gpu) =>
    forms.form === "lanes" && !forms.lanes && deviceOptions(gpu).lanes === 1
      ? "the device has no subgroups to broadcast in"
      : null;
  for (const shape of CASES) {
    gpuTest(`${name} agrees with its f64 reference: ${shape.name}`, async (gpu) => {
      const given = inputs(shape);
      const { a, b } = await runBoth(gpu, shape, given, forms);
      const expected = loraGradientReference({ ...shape, ...given }).map((v) => BEFORE + ALPHA * v);
      expectClose(b, expected, tolerance(shape.rows), "d_b");
      expectClose(a, transpose(expected, shape.columns, shape.rank), tolerance(shape.rows), "d_a");
    }, lacks);
  }

  gpuTest(`${name} has the same bits on every run`, async (gpu) => {
    const shape = CASES.find((c) => c.name === "many rows")!;
    const given = inputs(shape);
    const first = await runBoth(gpu, shape, given, forms),
      second = await runBoth(gpu, shape, given, forms);
    assert.deepEqual(first.a, second.a);
    assert.deepEqual(first.b, second.b);
  }, lacks);
}

Deno.test("the reference is the gradient of a LoRA's output with respect to A and B", () => {
  const rows = 3, width = 4, outputs = 8, rank = 2;
  const x = randomNormal(1, rows * width), a = randomNormal(2, rank * width);
  const b = randomNormal(3, outputs * rank), d_y = randomNormal(4, rows * outputs);
  // u[m, r] = Σ_i x[m, i] · a[r, i] and d_u[m, r] = Σ_o d_y[m, o] · b[o, r], written independently.
  const u = (a: Float64Array) =>
    Float64Array.from({ length: rows * rank }, (_, at) => {
      const m = Math.floor(at / rank), r = at % rank;
      return Array.from({ length: width }, (_, i) => x[m * width + i]! * a[r * width + i]!)
        .reduce((s, v) => s + v);
    });
  const loss = (a: Float64Array, b: Float64Array) => {
    const u_a = u(a);
    return d_y.reduce((sum, d, at) => {
      const m = Math.floor(at / outputs), o = at % outputs;
      for (let r = 0; r < rank; r++) sum += d * u_a[m * rank + r]! * b[o * rank + r]!;
      return sum;
    }, 0);
  };
  const d_u = Float64Array.from({ length: rows * rank }, (_, at) => {
    const m = Math.floor(at / rank), r = at % rank;
    return Array.from({ length: outputs }, (_, o) => d_y[m * outputs + o]! * b[o * rank + r]!)
      .reduce((s, v) => s + v);
  });
  const sizes = { rows, rank, q_stride: rank, q_offset: 0 };
  const d_b = loraGradientReference({ ...sizes, columns: outputs, p: d_y, q: u(a) });
  const d_a = loraGradientReference({ ...sizes, columns: width, p: x, q: d_u });
  const close = { relative: 1e-6, absolute: 1e-8 };
  expectClose(d_b, centralDifferences(b, (b) => loss(a, b)), close, "d_b");
  expectClose(transpose(d_a, width, rank), centralDifferences(a, (a) => loss(a, b)), close, "d_a");
});

Deno.test("the subgroup kernel is straight-line code with a register for every sum", () => {
  const text = lanesParts(8, 2).at(-1)!.text;
  assert.equal(text.match(/var sum\d+_\d+_\d+ = /g)!.length, 2 * 8 * 2);
  assert.equal(text.match(/broadcast_f32_\d\(q\d\)/g)!.length, 4 * 2 * 8);
  assert.equal(text.match(/ for \(/g)!.length, 1);
  assert.ok(!/[{#]for |\{[A-Z]+\}/.test(text), "nothing of the template is left");
});

gpuTest("lora_gradient names the tensor whose shape is wrong", async (gpu) => {
  const given = { p: filled(0, 2, 4), odd: filled(0, 2, 3), q: filled(0, 2, 8), more: filled(0, 3, 8) };
  await run(
    gpu,
    { ...given, out: filled(0, 4, 4), five: filled(0, 4, 5), partials: filled(0, 1) },
    (recorder, t) => {
      const record = (changed: object, q_offset = 0) => () =>
        loraGradient(recorder, { ...t, ...changed }, { order: "column_rank", alpha: 1, q_offset });
      const refuses = (message: string, ...given: [object, number?]) =>
        assert.throws(record(...given), new ShapeError(message));
      refuses("Cannot use columns of p 3: expected a multiple of 4", { p: t.odd });
      refuses("Cannot use columns of q 3: expected a multiple of 4", { q: t.odd });
      refuses("Cannot use rank 5: expected a multiple of 4", { out: t.five });
      refuses("Cannot use q with 3 rows: expected 2, the rows of p", { q: t.more });
      refuses("Cannot use out [3, 8]: expected [4, 8]", { out: t.more });
      refuses("Cannot use q_offset 3: expected a multiple of 4", {}, 3);
      refuses("Cannot use q with 8 columns: expected 4 from column 8 on", {}, 8);
    },
  );
});

Deno.test("partial sums of up to a rank have room for those of every lower one", () => {
  const rows = 4096,
    columns = 4864,
    roomOf = (rank: number) => loraGradientPartials({ rows, columns, rank }, "tiles");
  for (const most of [8, 64, 68, 96, 128, 256]) {
    for (let rank = 4; rank <= most; rank += 4) {
      const needed = splitGradient({ rows, columns, rank }).parts * columns * rank;
      assert.ok(needed <= roomOf(most), `${rank} of ${most}`);
    }
  }
  assert.equal(loraGradientPartials({ rows, columns, rank: 64 }, "lanes"), 0);
});
