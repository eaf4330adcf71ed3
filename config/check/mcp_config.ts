/** The MCP servers of a run: those of its configuration, and those of the MCP configuration file that it names. */

import { dirname, resolve } from "node:path";
import { z } from "zod";
import { ServiceError } from "../../core/errors.ts";
import { isJsonObject, parseJson } from "../../core/json.ts";
import { reasonOf } from "../../core/system_errors.ts";
import type { AgentConfig } from "../schema.ts";
import { httpUrl, text } from "../sections/fields.ts";
import { hasOnePlace, mcpServerSchema } from "../sections/mcp.ts";
import { configError, type ConfigProblem } from "../text/problems.ts";

/** The largest MCP configuration file in bytes. */
export const MAX_MCP_CONFIG_BYTES = 1 << 20;

/** A server with the places of its keys. Texts of a file that other clients read may hold `${NAME}` everywhere. */
export interface McpServer extends Omit<AgentConfig["mcp_servers"][number], "id" | "name"> {
  name: string;
  /** The file that declares it; null: the run's configuration. */
  file: string | null;
  /** The key of its table, such as `mcpServers.search`. */
  key: string;
}

/** The servers of a run. */
export interface McpServers {
  servers: McpServer[];
  /** What is ignored in the MCP configuration file. */
  warnings: string[];
}

/** The keys that other clients read too, and those of `[[agent.mcp_servers]]` that choose. */
const entrySchema = mcpServerSchema.omit({ id: true, name: true, command: true, url: true }).extend({
  type: z.enum(["stdio", "http", "streamable-http"], {
    error: 'must be "stdio" or "http": the older transport "sse" is not supported',
  }).optional(),
  command: text().optional(),
  args: z.array(z.string()).default([]),
  url: text().optional(),
  disabled: z.boolean().default(false),
});

/**
 * The servers of a run, with `${NAME}` still in their texts. Files are read at once, because permissions depend on them.
 *
 * @throws {ServiceError} `config_invalid` with all problems of the file as `details.problems`.
 */
export function mcpServersOf({ mcp_servers = [], mcp_config, environment }: AgentConfig): McpServers {
  const own = mcp_servers.map(({ id, name, ...server }, i): McpServer => ({
    ...server,
    ...{ name: name ?? id ?? "", file: null, key: `agent.mcp_servers.${i}` },
  }));
  if (mcp_config === undefined) return { servers: own, warnings: [] };
  const content = readMcpConfig(mcp_config);
  const { servers, problems, warnings } = serversOf(content, mcp_config);
  for (const { name, key, stateless } of servers) {
    const place = { file: mcp_config, line: lineOf(content, name), code: "invalid_value" } as const;
    if (own.some((other) => other.name === name)) {
      problems.push({ ...place, key, message: "has the name of a server in agent.mcp_servers" });
    }
    if (!environment || stateless) continue;
    const message = "must be true beside an environment: a server's state would outlive the trajectory";
    problems.push({ ...place, key: `${key}.stateless`, message });
  }
  if (problems.length > 0) throw configError(mcp_config, problems);
  return { servers: [...own, ...servers], warnings };
}

/**
 * What is wrong with the MCP configuration file of an unchecked `[agent]`, for the list of a configuration's problems;
 * an error about the entire file has no line of it.
 */
export function mcpConfigProblems(
  agent: Record<string, unknown>,
  file: string,
): ConfigProblem[] | ServiceError {
  const own = Array.isArray(agent.mcp_servers) ? agent.mcp_servers.filter(isJsonObject) : [];
  const known = { mcp_servers: own, mcp_config: file, environment: agent.environment };
  try {
    mcpServersOf(known as unknown as AgentConfig);
    return [];
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    return error.details.problems as ConfigProblem[] | undefined ?? error;
  }
}

function readMcpConfig(path: string): string {
  const refuse = (reason: string) =>
    new ServiceError("config_invalid", `Cannot load ${path}: ${reason}`, { path });
  let bytes: Uint8Array<ArrayBuffer>;
  try {
    const { size } = Deno.statSync(path);
    if (size > MAX_MCP_CONFIG_BYTES) throw refuse(`it has ${size} bytes, more than ${MAX_MCP_CONFIG_BYTES}`);
    bytes = Deno.readFileSync(path);
  } catch (error) {
    throw error instanceof ServiceError ? error : refuse(reasonOf(error));
  }
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw refuse("it is not UTF-8");
  }
}

/** The line of a name in JSON, from 1; the first where it occurs twice. */
function lineOf(content: string, name: string): number {
  const at = content.indexOf(JSON.stringify(name));
  return at < 0 ? 1 : content.slice(0, at).split("\n").length;
}

function serversOf(content: string, file: string): McpServers & { problems: ConfigProblem[] } {
  const found: McpServers & { problems: ConfigProblem[] } = { servers: [], warnings: [], problems: [] };
  const problem = (key: string, message: string, code: ConfigProblem["code"] = "invalid_value") =>
    found.problems.push({ file, line: lineOf(content, key.split(".")[1] ?? key), key, code, message });
  let tree: unknown;
  try {
    tree = parseJson(content);
  } catch {
    problem("", "is not JSON", "syntax");
    return found;
  }
  // Some clients call the table `servers`.
  const root = isJsonObject(tree) && !isJsonObject(tree.mcpServers) && isJsonObject(tree.servers)
    ? "servers"
    : "mcpServers";
  const table = isJsonObject(tree) ? tree[root] : undefined;
  if (!isJsonObject(table)) {
    problem("mcpServers", "is missing: a table with a server for each name", "missing_field");
    return found;
  }
  for (const [name, entry] of Object.entries(table)) {
    const key = `${root}.${name}`, parsed = entrySchema.strip().safeParse(entry);
    if (!parsed.success) {
      for (const issue of parsed.error.issues) problem([key, ...issue.path].join("."), issue.message);
      continue;
    }
    const unknown = Object.keys(entry as object).filter((part) => !Object.hasOwn(entrySchema.shape, part));
    found.warnings.push(...unknown.map((part) => `${file}: ${key}.${part} is ignored`));
    const { type: _, command, args, disabled, ...server } = parsed.data;
    if (disabled) continue;
    const place = { command: command === undefined ? undefined : [command, ...args], url: server.url };
    if (!hasOnePlace(place)) problem(key, "must have either command or url");
    found.servers.push({
      ...server,
      ...(place.command && { command: place.command, cwd: resolve(dirname(file), server.cwd ?? ".") }),
      ...{ name, file, key },
    });
  }
  return found;
}

const VARIABLE = /\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}/g;

/** The texts of a server that may hold `${NAME}`, by key. */
function textsOf({ file, command = [], url, cwd, env = {}, headers = {} }: McpServer): [string, string][] {
  const named = (key: string, table: object) =>
    Object.entries(table).map(([name, value]): [string, string] => [`${key}.${name}`, value]);
  const own = [...named("env", env), ...named("headers", headers)];
  if (file === null) return own;
  const others: [string, string | undefined][] = [["url", url], ["cwd", cwd]];
  return [
    ...own,
    ...command.map((text, i): [string, string] => [i === 0 ? "command" : `args.${i - 1}`, text]),
    ...others.filter((pair): pair is [string, string] => pair[1] !== undefined),
  ];
}

/** The environment variables that a server's texts name. */
export function mcpVariables(server: McpServer): string[] {
  return textsOf(server).flatMap(([, text]) => [...text.matchAll(VARIABLE)].map(([, name]) => name!));
}

/**
 * A server whose texts are final, and the values that nobody may see: those of headers, those of variables except paths,
 * and the password of the address.
 */
export interface ExpandedMcpServer extends McpServer {
  secrets: string[];
}

/**
 * Replaces `${NAME}` and `${NAME:-default}` by the environment's values; the default stands for an unset or empty one.
 *
 * @throws {ServiceError} `config_invalid` for a variable that is not set, naming the file and the key and no value.
 */
export function expandMcpServer(
  server: McpServer,
  variable: (name: string) => string | undefined,
): ExpandedMcpServer {
  const secrets = new Set<string>();
  const place = server.file ?? "agent.mcp_servers";
  const texts = textsOf(server).map(([key, given]) => {
    const value = given.replace(VARIABLE, (_, name: string, fallback?: string) => {
      const found = variable(name);
      if (found) {
        if (!found.startsWith("/")) secrets.add(found);
        return found;
      }
      if (fallback !== undefined) return fallback;
      if (found === "") return "";
      throw new ServiceError(
        "config_invalid",
        `Cannot load ${place}: ${server.key}.${key}: the environment variable ${name} is not set; ` +
          `set it, or give a default as \${${name}:-…}`,
        { key: `${server.key}.${key}` },
      );
    });
    if (key.startsWith("headers.")) secrets.add(value);
    return [key, value] as const;
  });
  const value_of = new Map(texts), of = (key: string, given: string) => value_of.get(key) ?? given;
  const tableOf = (key: "env" | "headers") => {
    const table = Object.entries(server[key] ?? {});
    return Object.fromEntries(table.map(([name, given]) => [name, of(`${key}.${name}`, given)]));
  };
  const { command, url, cwd } = server;
  if (url !== undefined) { for (const secret of credentialsOf(of("url", url))) secrets.add(secret); }
  const expanded = {
    ...server,
    ...(command && { command: command.map((text, i) => of(i === 0 ? "command" : `args.${i - 1}`, text)) }),
    ...(url !== undefined && { url: checkedUrl(of("url", url), server) }),
    ...(cwd !== undefined && { cwd: of("cwd", cwd) }),
    ...{ env: tableOf("env"), headers: tableOf("headers") },
  };
  return { ...expanded, secrets: [...secrets] };
}

/** The password of an address, and the forms in which a server gets it and could repeat it. */
function credentialsOf(address: string): string[] {
  const { username = "", password = "" } = URL.parse(address) ?? {};
  if (password === "") return [];
  const [user, secret] = [username, password].map(unescaped);
  return [password, secret!, new TextEncoder().encode(`${user}:${secret}`).toBase64()];
}

/** A part of an address; as it is where `%` is no escape in it. */
function unescaped(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function checkedUrl(url: string, { file, key }: McpServer): string {
  if (httpUrl().safeParse(url).success && URL.canParse(url)) return url;
  const message = `Cannot load ${file ?? "agent.mcp_servers"}: ${key}.url: must be an http or https address`;
  throw new ServiceError("config_invalid", message, { key: `${key}.url` });
}
