import { deepEqual, equal, match, throws } from "node:assert/strict";
import { join } from "node:path";
import { withFolder } from "../../tests/folder.ts";
import type { AgentConfig } from "../schema.ts";
import { matchesAnyPattern } from "../sections/mcp.ts";
import { loadRunConfig } from "./load.ts";
import { expandMcpServer, MAX_MCP_CONFIG_BYTES, mcpServersOf, mcpVariables } from "./mcp_config.ts";

/** The servers of a file, beside others of the configuration. */
async function serversOf(content: string, agent: object = {}) {
  return await withFolder(async (folder) => {
    const mcp_config = join(folder, "mcp.json");
    await Deno.writeTextFile(mcp_config, content);
    const shown = (text: string) => text.replaceAll(folder, "");
    try {
      const found = mcpServersOf({ mcp_servers: [], ...agent, mcp_config } as unknown as AgentConfig);
      return JSON.parse(shown(JSON.stringify(found)));
    } catch (error) {
      return shown((error as Error).message).split("\n").slice(1).join("\n") ||
        shown((error as Error).message);
    }
  });
}

const text = (mcpServers: object) => JSON.stringify({ mcpServers });

Deno.test("a file has local and remote servers as other clients read them, and the keys that choose tools", async () => {
  const { servers, warnings } = await serversOf(text({
    files: { command: "npx", args: ["-y", "x"], env: { A: "1" }, cwd: "sub", autoApprove: ["a"] },
    web: {
      type: "http",
      url: "https://example.org/mcp",
      headers: { a: "b" },
      required: false,
      denied_tools: ["x*"],
    },
    off: { command: "x", disabled: true },
  }));
  deepEqual(servers, [
    {
      ...{ env: { A: "1" }, cwd: "/sub", denied_tools: [], required: true, stateless: false },
      ...{ command: ["npx", "-y", "x"], name: "files", file: "/mcp.json", key: "mcpServers.files" },
    },
    {
      ...{ headers: { a: "b" }, denied_tools: ["x*"], required: false, stateless: false },
      ...{ url: "https://example.org/mcp", name: "web", file: "/mcp.json", key: "mcpServers.web" },
    },
  ]);
  deepEqual(warnings, ["/mcp.json: mcpServers.files.autoApprove is ignored"]);
  const other = await serversOf(JSON.stringify({ servers: { a: { command: "x" } } }));
  equal(other.servers[0].key, "servers.a");
});

Deno.test("a configuration's problems and those of its file are listed together", () =>
  withFolder(async (folder) => {
    const listed = async (mcp: string | null) => {
      if (mcp !== null) await Deno.writeTextFile(join(folder, "mcp.json"), mcp);
      const lines = [
        '[run]\nalgorithm = "agent_grpo"\n[model]\npath = "run.toml"\n[agent]\nscenarios = "run.toml"\nupdates = 1',
        'mcp_config = "mcp.json"\n[[agent.mcp_servers]]\nname = "b"\ncommand = ["x"]\n',
      ];
      await Deno.writeTextFile(join(folder, "run.toml"), lines.join("\n"));
      const message = await loadRunConfig(join(folder, "run.toml")).then(() => "", (error) => error.message);
      return message.replaceAll(`${folder}/`, "").split("\n");
    };
    const ungraded = /^run\.toml:5: agent: .*reward/,
      missing = "run.toml:8: agent.mcp_config: there is no file mcp.json";
    const [title, ...alone] = await listed(null);
    equal(title, "Cannot load run.toml: 2 problems");
    match(alone[0]!, ungraded);
    equal(alone[1], missing);
    const [, ...both] = await listed('{"mcpServers": {\n"a": {}, "b": {"command": "x"}}}');
    deepEqual(both.slice(0, 2), [
      "mcp.json:2: mcpServers.a: must have either command or url",
      "mcp.json:2: mcpServers.b: has the name of a server in agent.mcp_servers",
    ]);
    match(both[2]!, ungraded);
    const [, first, second] = await listed(" ".repeat(MAX_MCP_CONFIG_BYTES + 1));
    match(first!, ungraded);
    match(second!, /^run\.toml:8: agent\.mcp_config: Cannot load mcp\.json: it has \d+ bytes, more than/);
  }));

Deno.test("a file that cannot be used is refused with its places", async () => {
  const environment = { environment: { type: "local" }, mcp_servers: [{ name: "a", command: ["x"] }] };
  const cases: [string, object, string][] = [
    ["{", {}, "/mcp.json:1: is not JSON"],
    ["[]", {}, "/mcp.json:1: mcpServers: is missing: a table with a server for each name"],
    [text({ a: {} }), {}, "/mcp.json:1: mcpServers.a: must have either command or url"],
    [
      '{"mcpServers": {\n"a": {"url": "http://x", "type": "sse"}}}',
      {},
      '/mcp.json:2: mcpServers.a.type: must be "stdio" or "http": the older transport "sse" is not supported',
    ],
    [
      text({ a: { command: "x", stateless: true } }),
      environment,
      "/mcp.json:1: mcpServers.a: has the name of a server in agent.mcp_servers",
    ],
    [
      text({ b: { command: "x" } }),
      environment,
      "/mcp.json:1: mcpServers.b.stateless: must be true beside an environment: a server's state would outlive the " +
      "trajectory",
    ],
    [
      " ".repeat(MAX_MCP_CONFIG_BYTES + 1),
      {},
      `Cannot load /mcp.json: it has ${MAX_MCP_CONFIG_BYTES + 1} bytes, more than ${MAX_MCP_CONFIG_BYTES}`,
    ],
  ];
  for (const [content, agent, message] of cases) equal(await serversOf(content, agent), message);
});

const server = {
  ...{ name: "a", file: "/mcp.json", key: "mcpServers.a", denied_tools: [], required: true, stateless: true },
  ...{ command: ["${BIN}/x", "--key=${KEY:-none}", "$HOME ${}"], env: { TOKEN: "t-${KEY:-none}" } },
};

Deno.test("variables are replaced by their values or defaults, and secrets are known", () => {
  const env: Record<string, string> = { BIN: "/opt/bin", KEY: "canary-1" };
  const { command, env: variables, secrets } = expandMcpServer(server, (name) => env[name]);
  deepEqual([command, variables], [["/opt/bin/x", "--key=canary-1", "$HOME ${}"], { TOKEN: "t-canary-1" }]);
  deepEqual(secrets, ["canary-1"]);
  deepEqual(mcpVariables(server), ["KEY", "BIN", "KEY"]);
  for (const KEY of ["", undefined]) {
    const { command } = expandMcpServer(server, (name) => ({ BIN: "/b", KEY })[name]);
    equal(command![1], "--key=none");
  }
  const header = {
    ...server,
    command: undefined,
    url: "http://${BIN}/",
    headers: { Authorization: "Bearer ${KEY}" },
  };
  const { url, headers, secrets: all } = expandMcpServer(header, (name) => ({ BIN: "x", KEY: "k" })[name]);
  deepEqual([url, headers], ["http://x/", { Authorization: "Bearer k" }]);
  deepEqual(all.includes("Bearer k"), true);
  const address = { ...server, command: undefined, env: {}, url: "http://me:s%20${KEY}@h/" };
  const { secrets: of_address } = expandMcpServer(address, () => "canary-1");
  deepEqual(of_address, ["canary-1", "s%20canary-1", "s canary-1", btoa("me:s canary-1")]);
});

Deno.test("in a run's own configuration only env and headers are expanded", () => {
  const { command, env } = expandMcpServer({ ...server, file: null }, () => "v");
  deepEqual([command, env], [server.command, { TOKEN: "t-v" }]);
});

Deno.test("a variable that is not set is an error with its file and key", () => {
  throws(() => expandMcpServer(server, (name) => name === "KEY" ? "canary-1" : undefined), {
    code: "config_invalid",
    message:
      "Cannot load /mcp.json: mcpServers.a.command: the environment variable BIN is not set; set it, or give a " +
      "default as ${BIN:-…}",
  });
});

Deno.test("a star in a pattern stands for any characters", () => {
  const cases: (readonly [string, string, boolean])[] = [
    ...([["*", "", true], ["*", "x", true], ["a", "a", true], ["a", "ab", false], ["", "", true]] as const),
    ...([["a*", "ab", true], ["a*", "ba", false], ["*a", "ba", true], ["a*a", "a", false]] as const),
    ...([["a*a", "aa", true], ["a*b*c", "axbxc", true], ["a*b*c", "acb", false], ["**", "x", true]] as const),
    ...([["a.c", "abc", false], ["a*b*b", "ab", false], ["*b*b*", "abb", true], [
      "*b*b*",
      "ab",
      false,
    ]] as const),
  ];
  for (const [pattern, name, expected] of cases) {
    equal(matchesAnyPattern(["no", pattern], name), expected, `${pattern} ${name}`);
  }
});
