/** A batcher on the fake of the device, for tests. */

import type { ErrorRecord } from "../../core/errors.ts";
import type { GenerationStop } from "../protocol/protocol.ts";
import type { DeviceAdapter } from "../model/device_adapter.ts";
import type { Grammars } from "../grammar/grammars.ts";
import { Batcher } from "./batcher.ts";
import { FakeSampler, nextToken } from "./sampler_fake.ts";
import type { SamplerOptions } from "./sampler.ts";
import type { Sequence } from "./sequence.ts";

export const VOCABULARY = 50;
const MAX_CONTEXT = 256;
export const SIZES: SamplerOptions = {
  ...{ max_sequences: 4, max_prefill: 48, slots: 16, slot_pages: 8, pages: 40, kv: "f32", block_steps: 4 },
};
export const SAMPLING = { temperature: 1, top_p: 1, top_k: 0, rng_key: [0, 0] as const, mask: null };

export interface Heard {
  tokens: number[];
  stop: GenerationStop | null;
  error: ErrorRecord | null;
}

export function createBatcher(sizes: Partial<SamplerOptions> = {}, grammars?: Grammars) {
  const fake = new FakeSampler({ ...SIZES, ...sizes }, VOCABULARY);
  const heard = new Map<number, Heard>();
  const of = (sequence: Sequence) => {
    const entry = heard.get(sequence.id) ?? { tokens: [], stop: null, error: null };
    heard.set(sequence.id, entry);
    return entry;
  };
  const batcher = new Batcher(fake.asSampler(), { max_context: MAX_CONTEXT, ...(grammars && { grammars }) }, {
    sampled(sequence, { tokens, stop }) {
      of(sequence).tokens.push(...tokens);
      of(sequence).stop = stop;
    },
    failed: (sequence, error) => of(sequence).error = error,
  });
  const drain = async () => {
    while (await batcher.step());
  };
  return { batcher, fake, heard: of, drain };
}

let ids = 0;
export function open(
  batcher: Batcher,
  tokens: number[],
  { parent = null, adapter = null }: { parent?: Sequence | null; adapter?: DeviceAdapter | null } = {},
): Sequence {
  return batcher.open({ id: ids++, adapter, parent, tokens });
}

export function generate(
  batcher: Batcher,
  sequence: Sequence,
  { max_tokens, stop_tokens = [] }: { max_tokens: number; stop_tokens?: number[] },
): void {
  batcher.generate(sequence, { sequence: sequence.id, max_tokens, stop_tokens, sampling: SAMPLING });
}

export const some = (first: number, count: number) =>
  Array.from({ length: count }, (_, i) => (first + 3 * i) % VOCABULARY);

/** The tokens that are generated after some tokens. */
export function continuation(tokens: readonly number[], count: number): number[] {
  const all = [...tokens];
  for (let i = 0; i < count; i++) all.push(nextToken(all, VOCABULARY));
  return all.slice(tokens.length);
}
