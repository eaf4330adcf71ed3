/** The time that the mask of a JSON schema takes for each token, over the schemas of a public suite. */

import { maskBench } from "../../tests/schema_validator.ts";
import { openGguf } from "../../trainer/formats/gguf.ts";
import { compileSchema, type Grammar } from "../../trainer/grammar/grammar.ts";
import { GrammarMask } from "../../trainer/grammar/grammar_mask.ts";
import { type WalkedVocabulary, walkedVocabulary } from "../../trainer/grammar/schema_walk_testing.ts";
import { readTokenizer } from "../../trainer/tokenizer/read_tokenizer.ts";
import type { BenchContext } from "./context.ts";
import { round } from "./report.ts";

/** Schemas of a quick run. */
const QUICK_SCHEMAS = 10;

interface Instance {
  grammar: Grammar;
  ids: number[];
}

/**
 * Masks and advances over the suite's valid instances as the model's vocabulary encodes them: the first time, when
 * the masks of new expressions are found, and a second time, when they are kept.
 */
export async function benchMask(context: BenchContext): Promise<void> {
  using file = await openGguf(context.path);
  const begun = performance.now(), vocabulary = walkedVocabulary(readTokenizer(file));
  const prepare_ms = performance.now() - begun, compile_ms: number[] = [], instances: Instance[] = [];
  const suite = await maskBench();
  for (const { schema, valid } of context.quick ? suite.slice(0, QUICK_SCHEMAS) : suite) {
    const start = performance.now();
    try {
      const grammar = compileSchema(JSON.stringify(schema), vocabulary.table.arena);
      compile_ms.push(performance.now() - start);
      for (const value of valid) {
        const ids = vocabulary.tokenizer.encode(JSON.stringify(value), { special: false });
        instances.push({ grammar, ids });
      }
    } catch {
      compile_ms.push(performance.now() - start);
    }
  }
  const { report } = context, size = vocabulary.tokenizer.size;
  report.add({
    ...{ bench: "mask", name: "compile", value: round(mean(compile_ms)), unit: "ms" },
    ...{ schemas: compile_ms.length, p99: round(quantile(compile_ms, 0.99)), prepare_ms: round(prepare_ms) },
  });
  for (const name of ["first pass", "second pass"]) {
    const times = instances.flatMap((instance) => timeMasks(vocabulary, instance));
    report.add({
      ...{ bench: "mask", name, value: round(mean(times)), unit: "us/token", vocabulary: size },
      ...{ tokens: times.length, p50: round(quantile(times, 0.5)), p99: round(quantile(times, 0.99)) },
      max: round(quantile(times, 1)),
    });
  }
}

/** Microseconds of each token, up to the first that the mask does not allow. */
function timeMasks({ tokenizer, table }: WalkedVocabulary, { grammar, ids }: Instance): number[] {
  const mask = new GrammarMask(grammar, table, Math.ceil(tokenizer.size / 32)), times: number[] = [];
  for (const id of ids) {
    const start = performance.now(), bits = mask.bits();
    const is_allowed = (bits[id >>> 5]! >>> (id & 31) & 1) === 1;
    if (is_allowed) mask.advance(id);
    times.push(1000 * (performance.now() - start));
    if (!is_allowed) break;
  }
  return times;
}

const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;

function quantile(values: readonly number[], q: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.floor(q * (sorted.length - 1))]!;
}
