/** A judge's model behind an OpenAI-compatible API. */

import { ChatClient } from "../../core/chat_api/chat_client.ts";
import { type Endpoint, readKey } from "../../core/chat_api/endpoint.ts";
import type { Clock } from "../../core/clock.ts";
import { assert } from "../../core/errors.ts";
import type { JudgeModel, JudgeQuestion, JudgeReply } from "./ruler_judge.ts";
import { hostedForm, type RequestForm } from "./ruler_request.ts";

/** The keys of `[agent.judge]` about its endpoint, and what the client needs beside them. */
export interface ApiJudgeOptions extends Endpoint {
  max_chars: number;
  timeout_secs: number;
  max_retries: number;
  seed: number;
  clock: Clock;
}

/** How errors about the judge's key name it. */
export const JUDGE_KEY = { what: "the judge", setting: "agent.judge.api_key_env" } as const;

/** The name of the answer's form in requests. */
const SCHEMA_NAME = "scores";

/** A model that judges over the network. Its key is read from the environment when it starts. */
export class ApiJudge implements JudgeModel {
  readonly identity: string;
  readonly deterministic = false;
  readonly form: RequestForm;
  readonly #options: ApiJudgeOptions;
  #client: ChatClient | null = null;

  constructor(options: ApiJudgeOptions) {
    this.#options = options;
    this.form = hostedForm(options.max_chars);
    this.identity = JSON.stringify(["api", options.base_url, options.model]);
  }

  start(): Promise<void> {
    return Promise.try(() => {
      const { base_url, model, api_key_env, timeout_secs, max_retries, seed, clock } = this.#options;
      this.#client ??= new ChatClient({
        ...{ base_url, model, max_retries, seed, clock, timeout_ms: timeout_secs * 1000 },
        key: readKey(api_key_env, JUDGE_KEY),
        name: "the judge",
        code: "judge_failed",
      });
    });
  }

  redact = (text: string): string => this.#client?.redact(text) ?? text;

  async ask({ messages, schema }: JudgeQuestion, signal: AbortSignal): Promise<JudgeReply> {
    assert(this.#client, "the judge was started");
    const response_schema = { name: SCHEMA_NAME, schema };
    const reply = await this.#client.ask({ messages, response_schema, temperature: 0 }, signal);
    const { prompt_tokens, completion_tokens } = reply.usage;
    return {
      text: reply.content ?? "",
      is_cut_off: reply.finish_reason === "length",
      tokens: prompt_tokens + completion_tokens,
    };
  }
}
