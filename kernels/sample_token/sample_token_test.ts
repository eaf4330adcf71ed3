import assert from "node:assert/strict";
import { pcg4d, rngKey } from "../../core/random.ts";
import type { Gpu } from "../device.ts";
import { ceilDiv, ShapeError } from "../shape.ts";
import { expectClose, filled, gpuTest, randomNormal, run } from "../gpu_testing.ts";
import { gumbelReference, type SampleRow, sampleRowReference } from "./sample_token_reference.ts";
import { samplePartials, sampleToken } from "./sample_token.ts";
import type { KernelForm } from "../variant.ts";

/** The bits of a mask's row. */
function maskWords(allowed: ArrayLike<number>): Uint32Array {
  const words = new Uint32Array(ceilDiv(allowed.length, 32));
  for (let id = 0; id < allowed.length; id++) if (allowed[id]) words[id >> 5]! |= 1 << (id & 31);
  return words;
}

/** Samples a token for each row; all rows have the same vocabulary, and either all or none have a mask and a cutoff. */
async function sampleRows(gpu: Gpu, rows: readonly SampleRow[], form: KernelForm = "lanes") {
  const count = rows.length, vocabulary = rows[0]!.logits.length;
  const logits = new Float32Array(count * vocabulary);
  rows.forEach((row, b) => logits.set(row.logits, b * vocabulary));
  const masks = rows.flatMap(({ allowed }) => allowed ? [...maskWords(allowed)] : []);
  const { token, logprob } = await run(gpu, {
    logits: [logits, [count, vocabulary]],
    mask: [masks.length ? masks : [0], [masks.length ? count : 1, Math.max(1, masks.length / count)], "u32"],
    temperature: [rows.map((row) => row.temperature), [count]],
    rng_key: [rows.flatMap((row) => row.rng_key), [count, 2], "u32"],
    position: [rows.map((row) => row.position), [count], "u32"],
    cutoff: [rows.map((row) => row.cutoff ?? 0), [count]],
    partials: filled(NaN, samplePartials(count, vocabulary)),
    token: [new Uint32Array(count).fill(0xffffffff), [count], "u32"],
    logprob: filled(NaN, count),
  }, (recorder, t) => {
    const mask = masks.length ? t.mask : null, cutoff = rows[0]!.cutoff === undefined ? null : t.cutoff;
    sampleToken(recorder, { ...t, mask, cutoff }, form);
  });
  return { token, logprob };
}

const rngKeyOf = (n: number) => rngKey(7, "sample", n);

/** Rows of normal logits, each with its own key and position. */
function normalRows(
  count: number,
  vocabulary: number,
  change: (b: number) => Partial<SampleRow> = () => ({}),
) {
  return Array.from({ length: count }, (_, b): SampleRow => ({
    logits: randomNormal(100 + b, vocabulary).map((v) => Math.fround(2 * v)),
    temperature: 1,
    rng_key: rngKeyOf(b),
    position: 3 * b,
    ...change(b),
  }));
}

async function expectReference(gpu: Gpu, rows: readonly SampleRow[]) {
  const { token, logprob } = await sampleRows(gpu, rows);
  const expected = rows.map(sampleRowReference);
  // Variates are accurate to 6e-4 (noise_test.ts): a closer decision may go either way.
  const clear = expected.map((row, b) => row.margin > 2e-3 ? b : -1).filter((b) => b >= 0);
  assert.ok(clear.length > 0.9 * rows.length, `${clear.length} of ${rows.length} samples are no near ties`);
  assert.deepEqual(clear.map((b) => token[b]), clear.map((b) => expected[b]!.token));
  const close = { relative: 2e-6, absolute: 4e-6 };
  expectClose(clear.map((b) => logprob[b]!), clear.map((b) => expected[b]!.logprob), close, "logprob");
}

const CASES: readonly [string, () => SampleRow[]][] = [
  ["a vocabulary of one", () => normalRows(3, 1)],
  ["narrower than a vector", () => normalRows(40, 3)],
  ["odd, rows beyond a workgroup", () => normalRows(67, 131)],
  ["a tiny model's", () => normalRows(64, 1024)],
  ["temperatures", () => normalRows(64, 260, (b) => ({ temperature: [0.25, 0.7, 1.5, 4][b % 4]! }))],
  ["greedy rows beside others", () => normalRows(64, 1024, (b) => ({ temperature: b % 2 }))],
  ["a mask", () =>
    normalRows(32, 1028, (b) => ({
      allowed: Array.from({ length: 1028 }, (_, id) => (id * 7 + b) % 50 === 0 ? 1 : 0),
    }))],
  [
    "an odd mask",
    () =>
      normalRows(32, 77, (b) => ({
        allowed: Array.from({ length: 77 }, (_, id) => id % 11 === b % 11 ? 1 : 0),
      })),
  ],
  [
    "a cutoff that is a logit of its row",
    () => normalRows(32, 516).map((row, b) => ({ ...row, cutoff: row.logits.toSorted().at(-1 - b % 4)! })),
  ],
  [
    "logits of −inf",
    () =>
      normalRows(
        8,
        64,
        (b) => ({ logits: randomNormal(b, 64).map((v, id) => id % 9 === b ? v : -Infinity) }),
      ),
  ],
  ["a large vocabulary", () => normalRows(4, 151_936)],
];

for (const [name, rows] of CASES) {
  gpuTest(`sampleToken agrees with its f64 reference: ${name}`, (gpu) => expectReference(gpu, rows()));

  gpuTest(`sampleToken takes the same steps on GPUs: ${name}`, async (gpu) => {
    const given = rows();
    assert.deepEqual(await sampleRows(gpu, given, "tiles"), await sampleRows(gpu, given, "lanes"));
  });
}

gpuTest("temperature 0 takes the lowest id among equals", async (gpu) => {
  for (const vocabulary of [1027, 1024]) {
    const tied = (ids: number[]) =>
      new Float64Array(vocabulary).map((_, id) => ids.includes(id) ? 5 : id / vocabulary);
    const ids = [[1000, 37, 38, 900], [0, 1, 2, 3], [1023], [515, 514]];
    const rows = ids.map((of, b) => ({
      logits: tied(of),
      temperature: 0,
      rng_key: rngKeyOf(b),
      position: 0,
    }));
    const { token } = await sampleRows(gpu, rows);
    assert.deepEqual([...token], ids.map((of) => Math.min(...of)));
  }
});

gpuTest("a sequence samples the same token in any batch and at any position in it", async (gpu) => {
  const rows = normalRows(70, 515);
  const all = await sampleRows(gpu, rows);
  const turned = await sampleRows(gpu, rows.toReversed());
  assert.deepEqual(turned.token.toReversed(), all.token);
  assert.deepEqual(turned.logprob.toReversed(), all.logprob);
  const alone = await sampleRows(gpu, [rows[69]!]);
  assert.deepEqual([alone.token[0], alone.logprob[0]], [all.token[69], all.logprob[69]]);
});

gpuTest("the frequencies of a small vocabulary agree with the probabilities", async (gpu) => {
  const logits = Float64Array.of(0, 1, -1, 2.5, 0.5, -3, 1.5), count = 60_000, temperature = 1.25;
  for (const by of ["rng_key", "position"] as const) {
    const { token } = await sampleRows(
      gpu,
      Array.from({ length: count }, (_, n) => ({
        logits,
        temperature,
        rng_key: by === "rng_key" ? rngKeyOf(n) : rngKeyOf(1),
        position: by === "rng_key" ? 11 : n,
      })),
    );
    const mass = logits.map((z) => Math.exp(z / temperature)), total = mass.reduce((s, v) => s + v);
    const chiSquare = mass.reduce((sum, m, id) => {
      const expected = count * m / total;
      return sum + (token.filter((t) => t === id).length - expected) ** 2 / expected;
    }, 0);
    // 6 degrees of freedom: exceeds 27.9 for 1 of 10,000 seeds; the seed is fixed.
    assert.ok(chiSquare < 27.9, `chi-square by ${by} ${chiSquare}`);
  }
});

gpuTest("among 152,000 ids extremely improbable ones are never sampled", async (gpu) => {
  // All but the first eight have a probability of 1e-12, together 1.4e-7. Noise that reaches infinity, such as from a
  // uniform number that rounds to 1, would sample one of them every 200 times.
  const vocabulary = 151_936, head = 8, samples = 1500, batch = 30;
  const logits = new Float64Array(vocabulary).fill(Math.log(8e-12)).fill(0, 0, head);
  const rng_key = rngKeyOf(0);
  const seen = new Float64Array(head);
  for (let start = 0; start < samples; start += batch) {
    const rows = Array.from(
      { length: batch },
      (_, b) => ({ logits, temperature: 1, rng_key, position: start + b }),
    );
    for (const token of (await sampleRows(gpu, rows)).token) {
      assert.ok(token < head, `sampled ${token}`);
      seen[token]!++;
    }
  }
  const chiSquare = seen.reduce((sum, n) => sum + (n - samples / head) ** 2 / (samples / head), 0);
  // 7 degrees of freedom: exceeds 29.9 for 1 of 10,000 seeds.
  assert.ok(chiSquare < 29.9, `chi-square ${chiSquare}`);
});

gpuTest("in 10^6 samples the largest noise never selects an id of probability 5e-12", async (gpu) => {
  // Sampling 10^6 times from 152,000 ids takes an hour on a software adapter. But of improbable ids only the one with
  // the largest noise can be sampled, and no bits give more than 22.9 (noise_test.ts). So id 8 represents all of them:
  // its logit compensates for its own noise, so that it gets 22.9 every time; ids 9 to 11 are masked. If the eight
  // probable ids win 10^6 times, no id of probability 5e-12 or less can be sampled with these bits, from any
  // vocabulary. One of up to 1e-9 may be sampled once in 10^9 times, which the test of gumbel's precision at small bits
  // covers.
  const rng_keys = 1000, positions = 1000, probability = 5e-12, largest = 22.9, vocabulary = 12;
  // The device's noise of id 8 may be lower than the reference's by this much, at the largest bits.
  const uncertainty = 0.05;
  let made = 0;
  for (let n = 0; n < rng_keys; n += 250) {
    const count = 250 * positions, logits = new Float32Array(count * vocabulary).fill(-Infinity);
    const rng_key = new Uint32Array(2 * count), position = new Uint32Array(count);
    for (let b = 0; b < count; b++) {
      const key = rngKeyOf(n + Math.floor(b / positions));
      rng_key.set(key, 2 * b);
      position[b] = b % positions;
      const noise = gumbelReference(pcg4d(...key, position[b]!, 2)[0]);
      logits.fill(Math.log(1 / 8), vocabulary * b, vocabulary * b + 8);
      logits[vocabulary * b + 8] = Math.log(probability) + largest - noise + uncertainty;
    }
    const { token } = await run(gpu, {
      logits: [logits, [count, vocabulary]],
      temperature: [new Float32Array(count).fill(1), [count]],
      rng_key: [rng_key, [count, 2], "u32"],
      position: [position, [count], "u32"],
      partials: filled(NaN, samplePartials(count, vocabulary)),
      token: [new Uint32Array(count).fill(0xffffffff), [count], "u32"],
      logprob: filled(NaN, count),
    }, (recorder, t) => sampleToken(recorder, { ...t, mask: null, cutoff: null }));
    made += token.reduce((sum, id) => sum + (id < 8 ? 1 : 0), 0);
  }
  assert.equal(made, 1_000_000);
});

gpuTest("sampleToken names the tensor whose shape is wrong", async (gpu) => {
  const given = { logits: filled(0, 2, 40), v: filled(0, 2), wrong: filled(0, 3), rng_key: filled(0, 2, 2) };
  await run(gpu, { ...given, partials: filled(0, 16) }, (recorder, t) => {
    const rows = { temperature: t.v, position: t.v, token: t.v, logprob: t.v };
    const tensors = { ...t, ...rows, mask: null, cutoff: null };
    assert.throws(
      () => sampleToken(recorder, { ...tensors, position: t.wrong }),
      new ShapeError("Cannot use position [3]: expected [2]"),
    );
    assert.throws(
      () => sampleToken(recorder, { ...tensors, mask: t.logits }),
      new ShapeError("Cannot use mask [2, 40]: expected [2, 2]"),
    );
  });
});
