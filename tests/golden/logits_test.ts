import { deepEqual, equal, ok } from "node:assert/strict";
import { gpuTest } from "../../kernels/gpu_testing.ts";
import { generate } from "../../trainer/engine/engine_testing.ts";
import { fixturePath } from "../fixture.ts";
import {
  expectNear,
  GOLDEN_ADAPTER,
  goldenAdapter,
  type GoldenLogits,
  KINDS,
  loadParts,
  openEngine,
  readGolden,
  readGoldenLora,
  sample,
  TOLERANCE,
} from "./golden.ts";
import { promptLogits } from "./prompt_logits.ts";

const golden = await readGolden(), lora = await readGoldenLora();
const prompts = golden.prompts.map(({ ids }) => ids);

function expectLogits(actual: Float32Array, expected: GoldenLogits, name: string): void {
  const wide = Float64Array.from(actual), count = wide.length, max = Math.max(...wide);
  const largest = wide.toSorted().reverse(), { logit: tolerance } = TOLERANCE.f32;
  const near = (value: number, of: number, within: { name: string; tolerance: number }) =>
    expectNear(value, { expected: of, tolerance: within.tolerance, name: `${name}: ${within.name}` });
  expected.top20.forEach(([id, logit], i) => {
    near(wide[id]!, logit, { name: `logit ${id}`, tolerance });
    near(largest[i]!, logit, { name: `the ${i + 1}th largest logit`, tolerance });
  });
  near(max, expected.max, { name: "max", tolerance });
  near(wide.reduce((a, b) => a + b), expected.sum, { name: "sum", tolerance: count * tolerance });
  near(Math.hypot(...wide), expected.l2, { name: "l2", tolerance: Math.sqrt(count) * tolerance });
  const logsumexp = max + Math.log(wide.reduce((sum, z) => sum + Math.exp(z - max), 0));
  near(logsumexp, expected.logsumexp, { name: "logsumexp", tolerance });
}

for (const kind of KINDS) {
  gpuTest(
    `${kind}: every token's NLL and the last logits of nine prompts, with and without adapter`,
    async (gpu) => {
      const parts = await loadParts(gpu, kind), adapter = await goldenAdapter(parts);
      try {
        const samples = prompts.map((ids, i) => sample(ids, i));
        for (const [name, used] of [["base", null], ["adapter", adapter]] as const) {
          const logprobs = await parts.trainer.score(used, samples),
            logits = await promptLogits(parts, used, prompts);
          let worst = 0;
          golden.prompts.forEach((prompt, i) => {
            const expected = used ? lora[kind].prompts[i]! : prompt[kind], where = `${name}, ${prompt.name}`;
            equal(logprobs[i]!.length, prompt.ids.length - 1);
            expected.nll?.forEach((nll, t) => worst = Math.max(worst, Math.abs(nll + logprobs[i]![t]!)));
            const sum = -logprobs[i]!.reduce((a, b) => a + b, 0);
            ok(Math.abs(sum - expected.nll_sum) <= TOLERANCE.f32.logit, `${where}: the NLL sums to ${sum}`);
            expectLogits(logits[i]!.at(-1)!, expected.last_logits, where);
          });
          ok(worst <= TOLERANCE.f32.logit, `${name}: an NLL differs by ${worst}`);
          if (!used) console.log(`${kind}: largest difference of an NLL ${worst.toExponential(1)}`);
        }
      } finally {
        parts.close();
      }
    },
  );

  gpuTest(`${kind}: the sampler's 48 greedy tokens of nine prompts, with and without adapter`, async () => {
    const engine = await openEngine(kind), { client } = engine;
    try {
      const source = { type: "file", path: await fixturePath(GOLDEN_ADAPTER) } as const;
      await client.call("adapter_open", { adapter: "golden", source });
      const runs = await Promise.all(["golden", null].flatMap((adapter) =>
        prompts.map(async (tokens, i) => {
          const sequence = client.newSequence();
          await client.call("sequence_open", { sequence, adapter, parent: null, tokens });
          const generated = await generate(engine, { sequence, max_tokens: 48 });
          await client.call("sequence_close", { sequence });
          const expected = adapter ? lora[kind].prompts[i]! : golden.prompts[i]![kind];
          return { generated: generated.tokens, expected: expected.greedy, name: `${adapter}, prompt ${i}` };
        })
      ));
      for (const { generated, expected, name } of runs) {
        ok(Math.min(...expected.margins) > 2 * TOLERANCE.f32.logit, "no token is a tie");
        deepEqual(generated, expected.ids, name);
      }
      const [tuned, base] = [runs.slice(0, 9), runs.slice(9)];
      ok(
        tuned.every(({ generated }, i) => `${generated}` !== `${base[i]!.generated}`),
        "the adapter changes all nine",
      );
    } finally {
      await engine.close();
    }
  });
}
