/** A fragment token by token, for tests that compare tokens. */

import type { TokenOrigin } from "../../trainer/tokenizer/renderer.ts";
import type { Fragment } from "./trajectory.ts";

/** A token of a fragment with its columns. */
interface TokenRow {
  id: number;
  origin: TokenOrigin;
  trained: boolean;
  sampler_logprob: number | null;
  trainer_logprob: number | null;
  advantage: number | null;
  ratio: number | null;
  clipped: number | null;
}

/** A fragment token by token: columns become rows. Values that only sampled tokens have are null for other tokens. */
export function tokenRows(fragment: Fragment): TokenRow[] {
  const rows: TokenRow[] = [];
  const { sampled } = fragment;
  let n = 0;
  for (const span of fragment.spans) {
    for (let i = span.start; i < span.end; i++) {
      const k = span.origin === "model" ? n++ : -1;
      rows.push({
        id: fragment.tokens[i]!,
        origin: span.origin,
        trained: sampled.trained[k] ?? false,
        sampler_logprob: sampled.sampler_logprobs[k] ?? null,
        trainer_logprob: sampled.trainer_logprobs[k] ?? null,
        advantage: sampled.advantages[k] ?? null,
        ratio: sampled.ratios[k] ?? null,
        clipped: sampled.clipped[k] ?? null,
      });
    }
  }
  return rows;
}
