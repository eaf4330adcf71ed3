/** What a configuration writes to name something of the server. */

/** A string of TOML. Its escapes are those of JSON, but for one character. */
function tomlString(text: string): string {
  return JSON.stringify(text).replace(/\x7f/g, "\\u007F");
}

/** The lines of a configuration that name an entry of the catalogue or a file, by what it is. */
export const NAMED_IN = {
  environments: (id: string) => `[agent.environment]\nid = ${tomlString(id)}`,
  rewards: (id: string) => `[agent]\nreward = ${tomlString(id)}`,
  judges: (id: string) => `[agent.judge]\nid = ${tomlString(id)}`,
  mcp_servers: (id: string) => `[[agent.mcp_servers]]\nid = ${tomlString(id)}`,
  models: (path: string) => `[model]\npath = ${tomlString(path)}`,
  adapters: (path: string) => `[lora]\ninit_adapter = ${tomlString(path)}`,
} as const;
