/** A tool's definition, and its two published forms. */

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

/** The form of the Model Context Protocol. */
export interface McpTool {
  name: string;
  description: string;
  inputSchema: JsonSchema;
}

export function openAiTool(tool: ToolDefinition): OpenAiTool {
  const { name, description, parameters } = tool;
  return { type: "function", function: { name, description, parameters } };
}

export function mcpTool(tool: ToolDefinition): McpTool {
  return { name: tool.name, description: tool.description, inputSchema: tool.parameters };
}
