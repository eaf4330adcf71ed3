/** Opens the judge of `[agent.judge]`. */

import { JUDGE_DEFAULTS } from "../../config/sections/defaults.ts";
import type { JudgeConfig } from "../../config/schema.ts";
import type { Clock } from "../../core/clock.ts";
import { assert } from "../../core/errors.ts";
import { ApiJudge } from "./api_judge.ts";
import { JudgeCache } from "./judge_cache.ts";
import { type BaseModel, LocalJudge } from "./local_judge.ts";
import { type JudgeModel, RulerJudge } from "./ruler_judge.ts";

/** A judge that was opened; `close` never throws. */
export interface OpenJudge {
  judge: RulerJudge;
  close(): Promise<void>;
}

/** What a judge needs besides its section. */
export interface JudgeOptions {
  seed: number;
  clock: Clock;
  /** The run's model, for `type = "local"`; absent: none is loaded, and such a judge cannot start. */
  base_model?: BaseModel | null;
}

/** Opens a judge; nothing is read or sent before it starts. */
export function configuredJudge(section: JudgeConfig, options: JudgeOptions): OpenJudge {
  const { rubric, cache_path } = section;
  const cache = cache_path === undefined ? null : new JudgeCache(cache_path);
  return {
    judge: new RulerJudge({ model: judgeModel(section, options), rubric, cache }),
    close: () => Promise.try(() => cache?.close()),
  };
}

function judgeModel(section: JudgeConfig, { seed, clock, base_model = null }: JudgeOptions): JudgeModel {
  const { type, base_url, model, api_key_env, timeout_secs } = section;
  if (type === "local") return new LocalJudge({ model: base_model, timeout_secs, clock });
  const { max_chars = JUDGE_DEFAULTS.max_chars, max_retries = JUDGE_DEFAULTS.max_retries } = section;
  assert(base_url !== undefined && model !== undefined, "a checked judge has an endpoint and a model");
  return new ApiJudge({ base_url, model, api_key_env, max_chars, timeout_secs, max_retries, seed, clock });
}
