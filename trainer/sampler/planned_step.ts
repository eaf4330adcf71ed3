/** Which tokens run in the next step of the batcher, and which sequences sample in it. */

import { isDecodeReady, isPending, isPrefillReady, type PrefillPart, type Sequence } from "./sequence.ts";

/** A step: tokens that run in one pass, and then the sequences that sample. All are of one adapter. */
export interface PlannedStep {
  /** Given tokens. */
  given: PrefillPart[];
  /** Sequences that sample: all of their tokens have run by then, or all but a last one that is {@link isPending}. */
  rows: Sequence[];
  /** Ready sequences that move to the queue's end, because sequences of other adapters are ready too. */
  moved: Sequence[];
}

export interface StepLimits {
  /** The most tokens of a pass with given ones; of them at least half are given, if there are so many. */
  max_prefill: number;
  /** The most sequences that sample. */
  max_sequences: number;
}

/** Whether something can run for a sequence. */
export function isReady(sequence: Sequence): boolean {
  return isPrefillReady(sequence) || isDecodeReady(sequence);
}

/**
 * The next step of the first ready sequence's adapter. Given tokens do not wait for those that sample, nor the other way
 * round: they share a pass. Where only prompts are there and they do not fit in a pass, nobody samples until all have run,
 * so that the sequences of a group start together.
 *
 * @param sequences In the order in which they are served.
 */
export function planStep(sequences: Iterable<Sequence>, limits: StepLimits): PlannedStep {
  const ready = [...sequences].filter(isReady), [first] = ready;
  const chosen = ready.filter(({ adapter }) => adapter === first!.adapter);
  const given: PrefillPart[] = [], complete = new Set<Sequence>();
  const { max_prefill, max_sequences } = limits, pending = chosen.filter(isPending).length;
  let room = Math.max(max_prefill - Math.min(pending, max_sequences), Math.ceil(max_prefill / 2)),
    is_cut = false;
  for (const sequence of chosen) {
    if (isPending(sequence) || isDecodeReady(sequence)) {
      complete.add(sequence);
      continue;
    }
    const left = sequence.tokens.length - sequence.processed, count = Math.min(room, left);
    if (count > 0) given.push({ sequence, count });
    if (count < left) is_cut = true;
    else if (sequence.generation) complete.add(sequence);
    room -= count;
  }
  const samples = pending > 0 || !is_cut;
  const ready_rows = samples ? chosen.filter((sequence) => complete.has(sequence)) : [];
  let left = Math.max(max_prefill, max_sequences) - given.reduce((sum, { count }) => sum + count, 0);
  const rows = ready_rows.filter((sequence) => !isPending(sequence) || left-- > 0).slice(0, max_sequences);
  return { given, rows, moved: chosen.length < ready.length ? chosen : [] };
}
