/** `[[agent.mcp_servers]]` */

import { z } from "zod";
import { command, hasCredentials, httpUrl, name, text } from "./fields.ts";

const values = () => z.record(text(), z.string());

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
  env: values().optional().meta({
    description: "Environment variables of the command; ${NAME} in a value is the variable of svc.",
    rule: "none",
  }),
  cwd: text().optional().meta({
    description: "Working folder of the command.",
    rule: "that of the configuration file",
  }),
  headers: values().optional().meta({
    description: "Headers of requests to the url; ${NAME} in a value is the variable of svc.",
    rule: "none",
  }),
  allowed_tools: toolNames().optional().meta({
    description: "The tools to expose; * stands for any characters.",
    rule: "all",
  }),
  denied_tools: toolNames().default([]).meta({
    description: "Tools that are not exposed, also of the allowed ones; * stands for any characters.",
  }),
  required: z.boolean().default(true).meta({
    description: "The run fails when the server does; false: it goes on without the server's tools.",
  }),
  stateless: z.boolean().default(false).meta({
    description:
      "Calls have no side effects, so that all trajectories share one session; must be true beside an environment.",
  }),
});

type Place = string | readonly string[] | undefined;

/** Whether one place of a server is given: its command, its address, or the id of a catalogue's entry that has one. */
export function hasOnePlace({ command, url }: { command?: Place; url?: Place }, entry_id?: string): boolean {
  return [command, url, entry_id].filter((place) => place !== undefined).length === 1;
}

/** What is wrong with the address of a server; null: nothing. */
export function urlProblem(url: string | undefined): { key: "url"; message: string; hint: string } | null {
  return !hasCredentials(url) ? null : {
    key: "url",
    message: "must have no user name or password",
    hint: "give them by headers, in which ${NAME} is an environment variable",
  };
}

/** Whether one of the patterns of `allowed_tools` or `denied_tools` matches a name: `*` stands for any characters. */
export function matchesAnyPattern(patterns: readonly string[], name: string): boolean {
  return patterns.some((pattern) => matchesPattern(pattern.split("*"), name));
}

/** The first and last part are at the ends of the name, the others between them in their order. */
function matchesPattern([first = "", ...others]: string[], name: string): boolean {
  const last = others.pop();
  if (last === undefined) return name === first;
  if (!name.startsWith(first) || !name.endsWith(last) || name.length < first.length + last.length) {
    return false;
  }
  const inner = name.slice(first.length, name.length - last.length);
  let at = 0;
  return others.every((part) => {
    const found = inner.indexOf(part, at);
    at = found + part.length;
    return found >= 0;
  });
}
