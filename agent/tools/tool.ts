/** A tool's definition, and the form in which chat templates render it. */

/** A JSON Schema; key order is kept, because the prompt's text depends on it. */
export type JsonSchema = { [key: string]: unknown };

export interface ToolDefinition {
  name: string;
  description: string;
  parameters: JsonSchema;
}

/** The OpenAI form, which chat templates render. */
export interface OpenAiTool {
  type: "function";
  function: ToolDefinition;
}

export function openAiTool(tool: ToolDefinition): OpenAiTool {
  const { name, description, parameters } = tool;
  return { type: "function", function: { name, description, parameters } };
}
