import { deepEqual, equal, match, ok } from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { systemClock } from "../core/clock.ts";
import { callOnce, never, testHost } from "../agent/mcp/mcp_testing.ts";
import { checkCall } from "../agent/tools/toolset.ts";
import { withFolder } from "./folder.ts";
import { mcpCommand, mcpServersMissing } from "./mcp_servers.ts";
import { isDead } from "./process_state.ts";

const missing = mcpServersMissing();
const skipped = (name: string) => `${name}${missing === null ? "" : ` (skipped: ${missing})`}`;

const HOST = fileURLToPath(new URL("mcp_client_fake.ts", import.meta.url));

Deno.test({
  name: skipped(
    "server-everything lists and runs its tools, and is gone although it ignores the end of its input",
  ),
  ignore: missing !== null,
  async fn() {
    await using tested = testHost({
      ...{ name: "everything", command: mcpCommand("server-everything"), clock: systemClock },
      denied_tools: ["trigger-*", "simulate-*", "toggle-*"],
      env: { TOKEN: "canary" },
    });
    const { host } = tested, tools = await host.list(never);
    const echo = tools.find(({ name }) => name === "echo")!;
    deepEqual(Object.keys(echo.parameters.properties as object), ["message"]);
    ok(tools.every(({ name }) => !/^(trigger|simulate|toggle)-/.test(name)));
    equal(await callOnce(host, "echo", { message: "hi" }), "Echo: hi");
    match((await callOnce(host, "get-sum", { a: 2, b: 3 }))!, /\b5\b/);
    const wrong = { name: "get-sum", arguments: { a: "2", b: 3 } };
    equal(checkCall(tools, wrong), "error: bad arguments at /a");
    match((await callOnce(host, "get-tiny-image"))!, /\[image: image\/png\]/);
    const environment = JSON.parse((await callOnce(host, "get-env"))!);
    deepEqual([environment.TOKEN, environment.USER], ["canary", undefined]);
    await host.close();
  },
});

Deno.test({
  name: skipped("server-filesystem reads its folder and refuses others, and is gone at the end"),
  ignore: missing !== null,
  fn: () =>
    withFolder(async (folder) => {
      const root = await Deno.realPath(folder);
      await Deno.writeTextFile(`${root}/a.txt`, "hello");
      const command = ["sh", "-c", 'echo $$ > "$0"; exec "$@"', `${root}/pid`];
      await using tested = testHost({
        ...{ name: "files", clock: systemClock, allowed_tools: ["read_text_file", "list_*", "write_file"] },
        command: [...command, ...mcpCommand("server-filesystem", root)],
        stateless: false,
      });
      const { host } = tested, names = (await host.list(never)).map(({ name }) => name);
      ok(names.includes("list_directory") && !names.includes("edit_file"));
      equal(await callOnce(host, "read_text_file", { path: `${root}/a.txt` }), "hello");
      match((await callOnce(host, "read_text_file", { path: "/etc/passwd" }))!, /^error: Access denied/);
      match((await callOnce(host, "list_directory", { path: root }))!, /^\[FILE\] a\.txt/);
      await host.close();
      ok(await isDead((await Deno.readTextFile(`${root}/pid`)).trim()));
    }),
});

/** The scenarios for clients that this one passes. */
const PASSED = ["initialize", "tools_call", "sse-retry"];

/** The others by the beginning of their names, and why they are not for this client (docs/guides/mcp.md). */
const LEFT_OUT = {
  "auth/": "OAuth is not supported: credentials are headers",
  "elicitation-": "nobody can be asked during a run, so the client does not offer elicitation",
};

/** Runs a command of the suite. */
async function conformance(...args: string[]): Promise<{ success: boolean; said: string }> {
  const [program, ...rest] = mcpCommand("conformance", ...args);
  const cwd = await Deno.makeTempDir();
  try {
    const output = await new Deno.Command(program!, { args: rest, cwd, stdin: "null" }).output();
    const said = new TextDecoder().decode(output.stdout) + new TextDecoder().decode(output.stderr);
    return { success: output.success, said };
  } finally {
    await Deno.remove(cwd, { recursive: true });
  }
}

Deno.test({
  name: skipped(
    "each client scenario of @modelcontextprotocol/conformance is passed, or left out with a reason",
  ),
  ignore: missing !== null,
  async fn() {
    const { said } = await conformance("list", "--client");
    const [, listed = ""] = said.split("Client scenarios");
    const names = [...listed.matchAll(/^ +- (\S+)/gm)].map(([, name]) => name!);
    const left_out = names.filter((name) => Object.keys(LEFT_OUT).some((prefix) => name.startsWith(prefix)));
    deepEqual(names.filter((name) => !left_out.includes(name)).toSorted(), PASSED.toSorted());
    for (const prefix of Object.keys(LEFT_OUT)) ok(left_out.some((name) => name.startsWith(prefix)), prefix);
  },
});

for (const scenario of PASSED) {
  Deno.test({
    name: skipped(`the client passes the scenario ${scenario} of @modelcontextprotocol/conformance`),
    ignore: missing !== null,
    async fn() {
      const client = `${Deno.execPath()} run -A --quiet ${HOST}`;
      const { success, said } = await conformance("client", "--command", client, "--scenario", scenario);
      ok(success, said);
      match(said, /Passed: [1-9]\d*\/\d+, 0 failed/);
    },
  });
}
