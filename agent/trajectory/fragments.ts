/** Records the tokens of a trajectory as they arrive, each with its origin, and columns for the sampled ones. */

import { assert } from "../../core/errors.ts";
import type { TokenOrigin } from "../../trainer/tokenizer/renderer.ts";
import type { Fragment, SampledColumns } from "./trajectory.ts";

function newFragment(): Fragment {
  const sampled: SampledColumns = {
    turns: [],
    sampler_logprobs: [],
    trainer_logprobs: [],
    advantages: [],
    ratios: [],
    clipped: [],
    entropies: [],
    trained: [],
  };
  return { tokens: [], spans: [], sampled };
}

/** The fragments of a trajectory while it grows. */
export class FragmentRecorder {
  readonly fragments: Fragment[] = [newFragment()];

  constructor(prompt: readonly number[]) {
    this.add("prompt", prompt);
  }

  /** Replaces the prompt, while there is nothing else. */
  replacePrompt(prompt: readonly number[]): void {
    assert(
      this.fragments.length === 1 && this.current.spans.every(({ origin }) => origin === "prompt"),
      "a prompt is replaced before the first turn",
    );
    this.fragments[0] = newFragment();
    this.add("prompt", prompt);
  }

  get current(): Fragment {
    return this.fragments.at(-1)!;
  }

  get length(): number {
    return this.current.tokens.length;
  }

  /** Tokens that the model did not sample. */
  add(origin: Exclude<TokenOrigin, "model">, tokens: readonly number[]): void {
    this.#append(origin, tokens);
  }

  /** Tokens that the model sampled in a turn. */
  addSampled(turn: number, tokens: readonly number[], logprobs: readonly number[]): void {
    assert(tokens.length === logprobs.length, "every sampled token has a log-probability");
    this.#append("model", tokens);
    const { sampled } = this.current;
    for (const logprob of logprobs) {
      sampled.turns.push(turn);
      sampled.sampler_logprobs.push(logprob);
      for (const column of nullColumns(sampled)) column.push(null);
      sampled.trained.push(false);
    }
  }

  /** Starts a fragment: its prompt contains the earlier turns as the template rewrote them. */
  restart(prompt: readonly number[]): void {
    this.fragments.push(newFragment());
    this.add("prompt", prompt);
  }

  #append(origin: TokenOrigin, tokens: readonly number[]): void {
    if (tokens.length === 0) return;
    const { tokens: all, spans } = this.current;
    const last = spans.at(-1);
    const start = all.length;
    all.push(...tokens);
    if (last?.origin === origin) last.end = all.length;
    else spans.push({ start, end: all.length, origin });
  }
}

/** The columns that a training step fills in. */
function nullColumns(sampled: SampledColumns): (number | null)[][] {
  return [sampled.trainer_logprobs, sampled.advantages, sampled.ratios, sampled.clipped, sampled.entropies];
}
