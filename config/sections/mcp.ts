/** `[[agent.mcp_servers]]` */

import { z } from "zod";
import { command, httpUrl, name } from "./fields.ts";

const toolNames = () => z.array(z.string().min(1));

export const mcpServerSchema = z.strictObject({
  id: name().optional().meta({ description: "A server of the service's catalogue.", rule: "none" }),
  name: name().optional().meta({ description: "Prefix of its tools' names.", rule: "id" }),
  command: command().optional().meta({
    description: "Program that speaks MCP over its standard streams.",
    rule: "url or id must be given",
  }),
  url: httpUrl().optional().meta({
    description: "Address of a remote server.",
    rule: "command or id must be given",
  }),
  allowed_tools: toolNames().optional().meta({ description: "The tools to expose.", rule: "all" }),
  denied_tools: toolNames().default([]).meta({ description: "Tools that are not exposed." }),
  required: z.boolean().default(true).meta({ description: "The run fails when the server does." }),
  stateless: z.boolean().default(false).meta({
    description: "Calls have no side effects; must be true beside an environment.",
  }),
});

type Place = string | readonly string[] | undefined;

/** Whether one place of a server is given: its command, its address, or the id of a catalogue's entry that has one. */
export function hasOnePlace({ command, url }: { command?: Place; url?: Place }, entry_id?: string): boolean {
  return [command, url, entry_id].filter((place) => place !== undefined).length === 1;
}
