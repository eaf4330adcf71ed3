/** Checks before a run starts that the chat template can render what the run will need. */

import type { EnvironmentFactory } from "../../../agent/environment/environment.ts";
import { promptMessages } from "../../../agent/rollout/prompts.ts";
import type { ResolvedConfig } from "../../../config/check/derive.ts";
import type { Message, ToolFunction } from "../../../core/chat.ts";
import type { Scenario } from "../../../data/scenario.ts";
import { chatOf, type ModelParts, templateFile, withTemplateNamed } from "../../session/model_parts.ts";

/**
 * Renders the prompt of the first scenario of every system prompt and toolset, then a call and its result.
 *
 * @throws {ServiceError} `template_failed`, naming the scenario and the template's file.
 */
export async function checkTemplate(
  data: { path: string; scenarios: readonly Scenario[] },
  { config, parts, environments }: {
    config: ResolvedConfig;
    parts: ModelParts;
    environments: EnvironmentFactory;
  },
): Promise<void> {
  const chat = chatOf(parts);
  const seen = new Set<string>();
  const { signal } = new AbortController();
  for (const scenario of data.scenarios) {
    const { name, tools } = await environments.catalog(scenario, signal);
    const kind = JSON.stringify([scenario.system, name]);
    if (seen.has(kind)) continue;
    seen.add(kind);
    const doing = `render ${data.path}:${scenario.line}`;
    withTemplateNamed(templateFile(config.model), doing, () => {
      const messages = promptMessages(scenario, config.agent?.system_suffix ?? "");
      chat.promptTokens(messages, tools);
      if (tools.length === 0) return;
      chat.continuation({
        messages: [...messages, ...answeredCall(tools[0]!)],
        turn: messages.length,
        tools,
        ended_by: chat.stop_tokens[0] ?? 0,
      });
    });
  }
}

function answeredCall({ name }: ToolFunction): Message[] {
  const id = "call_0_0";
  return [
    {
      role: "assistant",
      content: "",
      tool_calls: [{ id, type: "function", function: { name, arguments: {} } }],
    },
    { role: "tool", content: "ok", tool_call_id: id, name },
  ];
}
