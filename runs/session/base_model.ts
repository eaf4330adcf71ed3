/** The run's base model as its judge uses it, beside the rollouts on the same engine. */

import type { BaseModel } from "../../agent/judge/local_judge.ts";
import type { JudgeQuestion, JudgeReply } from "../../agent/judge/ruler_judge.ts";
import type { ResolvedConfig } from "../../config/check/derive.ts";
import type { ChatMessage, Message } from "../../core/chat.ts";
import { ServiceError } from "../../core/errors.ts";
import { type CheckedFile, withCheckedFiles } from "../../core/regular_file.ts";
import type { EngineClient } from "../../trainer/protocol/client.ts";
import { answerChat } from "../chat/answer_chat.ts";
import { inputFingerprints } from "../directory/config_identity.ts";
import { MODEL_INPUTS } from "../directory/same_inputs.ts";
import type { ModelParts } from "./model_parts.ts";

/** A run's engine and model. */
export interface BaseModelOptions {
  engine: EngineClient;
  parts: ModelParts;
  config: ResolvedConfig;
  /** The files that are opened only as they were checked. */
  files: readonly CheckedFile[];
}

/** The base model of an engine that has room for one more sequence of `training.ctx` tokens. */
export function baseModel({ engine, parts, config, files }: BaseModelOptions): BaseModel {
  const { renderer, variables } = parts, { tokenizer } = renderer, max_context = config.training.ctx;
  const options = { tools: [], variables };
  const refuses_system = refusesSystem(parts);
  const chatOf = (messages: readonly ChatMessage[]) =>
    refuses_system ? withoutSystem(messages) : [...messages];
  return {
    max_context,
    identity: async () => {
      const inputs = await withCheckedFiles(files, () => inputFingerprints(config, MODEL_INPUTS));
      return JSON.stringify([inputs, variables]);
    },
    control_texts: Array.from({ length: tokenizer.size }, (_, id) => id)
      .flatMap((id) => tokenizer.isControl(id) ? [tokenizer.textOf(id)] : []),
    fits(messages, max_tokens) {
      try {
        return renderer.renderPrompt(chatOf(messages), options, max_tokens).ids.length <= max_tokens;
      } catch (error) {
        if (error instanceof ServiceError && error.details.least_tokens !== undefined) return false;
        throw error;
      }
    },
    encode: (text) => tokenizer.encode(text, { special: false }),
    decode: (ids) => tokenizer.decode(ids, { special: true }),
    async answer({ messages, schema }: JudgeQuestion, signal): Promise<JudgeReply> {
      const request = {
        ...{
          messages: chatOf(messages) as Message[],
          tools: [],
          choices: 1,
          max_tokens: null,
          temperature: 0,
        },
        ...{
          top_p: 1,
          seed: 0,
          stop: [],
          one_call: false,
          schema: JSON.stringify(schema),
          logprobs: false,
          stream: false,
        },
      };
      const context = { engine, model: parts, adapter: null, max_context, at_once: 1, recorder: null };
      const reply = { text: "", is_cut_off: false, tokens: 0 };
      for await (const event of answerChat(request, context, signal)) {
        if ("prompt_tokens" in event) reply.tokens += event.prompt_tokens;
        else if ("delta" in event) reply.text += event.delta.content;
        else {
          reply.tokens += event.completion_tokens;
          reply.is_cut_off = event.finish === "length";
        }
      }
      return reply;
    },
  };
}

/** Whether the template has no system messages, as that of Gemma. */
function refusesSystem({ renderer, variables }: ModelParts): boolean {
  const messages: ChatMessage[] = [{ role: "system", content: "A." }, { role: "user", content: "B." }];
  try {
    renderer.renderText(messages, true, { tools: [], variables });
    return false;
  } catch {
    return true;
  }
}

/** The same, with the system message at the beginning of the user's. */
function withoutSystem([system, user, ...rest]: readonly ChatMessage[]): ChatMessage[] {
  return [{ ...user!, content: `${system!.content}\n\n${user!.content}` }, ...rest];
}
