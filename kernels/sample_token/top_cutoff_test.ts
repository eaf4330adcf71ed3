import assert from "node:assert/strict";
import type { Gpu } from "../device.ts";
import { filled, gpuTest, randomNormal, run } from "../gpu_testing.ts";
import type { KernelForm } from "../variant.ts";
import { topCutoff } from "./sample_token.ts";
import { topCutoffReference } from "./sample_token_reference.ts";

interface Row {
  logits: Float64Array;
  temperature: number;
  top_k: number;
  top_p: number;
}

async function cut(gpu: Gpu, rows: readonly Row[], form: KernelForm, mask: Uint32Array | null = null) {
  const count = rows.length, vocabulary = rows[0]!.logits.length;
  const { cutoff } = await run(gpu, {
    logits: [rows.flatMap((row) => [...row.logits]), [count, vocabulary]],
    mask: [mask ?? [0], mask ? [count, mask.length / count] : [1, 1], "u32"],
    temperature: [rows.map((row) => row.temperature), [count]],
    top_k: [rows.map((row) => row.top_k), [count], "u32"],
    top_p: [rows.map((row) => row.top_p), [count]],
    cutoff: filled(NaN, count),
  }, (recorder, t) => topCutoff(recorder, { ...t, mask: mask ? t.mask : null }, form));
  return cutoff;
}

/** The number of logits that a cutoff leaves, which is what matters. */
const left = (logits: Float64Array, cutoff: number) => logits.filter((v) => v >= cutoff).length;

const settings: readonly Omit<Row, "logits">[] = [
  { temperature: 1, top_k: 0, top_p: 1 },
  { temperature: 1, top_k: 1, top_p: 1 },
  { temperature: 1, top_k: 7, top_p: 1 },
  { temperature: 1, top_k: 5000, top_p: 1 },
  { temperature: 1, top_k: 0, top_p: 0.9 },
  { temperature: 0.5, top_k: 0, top_p: 0.5 },
  { temperature: 2, top_k: 20, top_p: 0.75 },
  { temperature: 0, top_k: 3, top_p: 0.9 },
  { temperature: 1, top_k: 0, top_p: 1e-6 },
];

for (const form of ["lanes", "tiles"] as const) {
  for (const vocabulary of [3, 1024, 1027]) {
    gpuTest(`topCutoff (${form}) keeps the same ids of ${vocabulary} as sorting`, async (gpu) => {
      const rows = settings.flatMap((setting, n) => [
        { ...setting, logits: randomNormal(n, vocabulary) },
        // Rounding to halves makes ties; values far from zero and of both signs use the full range of patterns.
        { ...setting, logits: randomNormal(n + 50, vocabulary).map((v) => Math.round(2 * v) / 2) },
        { ...setting, logits: randomNormal(n + 90, vocabulary).map((v) => Math.fround(v * 1e3 - 1e4)) },
      ]);
      const cutoff = await cut(gpu, rows, form);
      rows.forEach(({ logits, temperature, top_k, top_p }, b) => {
        const expected = left(logits, topCutoffReference(logits, temperature, top_k, top_p));
        const told = `row ${b}: T ${temperature}, top_k ${top_k}, top_p ${top_p}`;
        assert.equal(left(logits, cutoff[b]!), expected, told);
      });
    });
  }

  gpuTest(`topCutoff (${form}) sees the mask, and a row does not depend on the others`, async (gpu) => {
    const logits = randomNormal(1, 64);
    const rows = settings.map((setting) => ({ ...setting, logits }));
    // The upper half of the ids is masked.
    const mask = Uint32Array.from({ length: 2 * rows.length }, (_, i) => i % 2 === 0 ? 0xffffffff : 0);
    const all = await cut(gpu, rows, form, mask);
    rows.forEach(({ temperature, top_k, top_p }, b) => {
      const allowed = logits.slice(0, 32);
      const expected = left(allowed, topCutoffReference(allowed, temperature, top_k, top_p));
      assert.equal(left(allowed, all[b]!), expected, `row ${b}`);
    });
    const alone = await cut(gpu, rows.slice(6, 7), form, mask.slice(0, 2));
    assert.equal(alone[0], all[6]);
  });
}
