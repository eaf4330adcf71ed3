/** Opens the judge of `[agent.judge]`. */

import { JUDGE_DEFAULTS } from "../../config/sections/defaults.ts";
import type { JudgeConfig } from "../../config/schema.ts";
import type { Clock } from "../../core/clock.ts";
import { assert } from "../../core/errors.ts";
import { ApiJudge } from "./api_judge.ts";
import { JudgeCache } from "./judge_cache.ts";
import { RulerJudge } from "./ruler_judge.ts";

/** A judge that was opened; `close` never throws. */
export interface OpenJudge {
  judge: RulerJudge;
  close(): Promise<void>;
}

/** Opens a judge that names its endpoint; nothing is read or sent before it starts. */
export function configuredJudge(
  section: JudgeConfig,
  { seed, clock }: { seed: number; clock: Clock },
): OpenJudge {
  const { base_url, model, api_key_env, timeout_secs, rubric, cache_path } = section;
  const { max_chars = JUDGE_DEFAULTS.max_chars, max_retries = JUDGE_DEFAULTS.max_retries } = section;
  assert(base_url !== undefined && model !== undefined, "a checked judge has an endpoint and a model");
  const cache = cache_path === undefined ? null : new JudgeCache(cache_path);
  const api = new ApiJudge({ base_url, model, api_key_env, timeout_secs, max_retries, seed, clock });
  return {
    judge: new RulerJudge({ model: api, rubric, max_chars, cache }),
    close: () => Promise.try(() => cache?.close()),
  };
}
