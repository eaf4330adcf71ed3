/** What `allow_network` changes: a server of this machine is reached from a container with it, and from none without. */

import { deepEqual } from "node:assert/strict";
import { containerEnvironments } from "../container.ts";
import { askEngine } from "../container_engine.ts";
import { LAB_IMAGE, labEngine, labOptions, needsContainers, NO_CONTAINERS } from "../container_testing.ts";
import { result, withEnvironment } from "../environment_contract.ts";
import { TESTED_TOOLSETS } from "../verification_contract.ts";

/** Why the engine gives no container a network, without the arguments of environments; null: it does. */
async function missingNetwork(): Promise<string | null> {
  const shown = ["run", "--rm", LAB_IMAGE, "ip", "route"];
  const { code, stdout, stderr } = await askEngine(labEngine().program, shown);
  if (code !== 0) return `containers get no network: ${stderr.trim().replaceAll("\n", " ")}`;
  return /^default via /m.test(stdout) ? null : "containers get no network: they have no route";
}

const missing = NO_CONTAINERS === null ? await missingNetwork() : null;

/** Addresses of this machine that others reach. The gateway of a container is one too. */
const ADDRESSES = Deno.networkInterfaces()
  .filter(({ family, address }) => family === "IPv4" && !address.startsWith("127."))
  .map(({ address }) => address);

/** How a tool's program ends that looks for a word at a port of these addresses. */
async function asked(allow_network: boolean, { port, word }: { port: number; word: string }) {
  const tools = { table: TESTED_TOOLSETS, tools: { default: "shell" }, scenario_toolsets: [] };
  const options = await labOptions({ allow_network, pool: { max_live: 1 } }, { tools });
  const factory = containerEnvironments(options);
  const gateway = "$(ip route | sed -n 's/^default via \\([^ ]*\\).*/\\1/p')";
  const line = `for a in ${gateway} ${ADDRESSES.join(" ")}; do
    if nc -w 5 $a ${port} </dev/null 2>/dev/null | grep -q ${word}; then exit 7; fi
  done`;
  let ended: string | null = null;
  try {
    await withEnvironment({ factory }, { toolset: "shell" }, async (environment) => {
      ended = await result(environment, "sh", { line });
    });
  } finally {
    await factory.close();
    await Deno.remove(options.owners_folder, { recursive: true });
  }
  return ended;
}

const test = needsContainers(
  "X1: a tool reaches a server of this machine with allow_network, and not without",
);

Deno.test({
  ...missing === null ? test : { name: `${test.name} (skipped: ${missing})`, ignore: true },
  sanitizeOps: true,
  sanitizeResources: true,
  async fn() {
    const server = Deno.listen({ hostname: "0.0.0.0", port: 0 }), word = crypto.randomUUID();
    const { port } = server.addr as Deno.NetAddr;
    const answering = (async () => {
      for await (const connection of server) {
        await connection.write(new TextEncoder().encode(`${word}\n`)).catch(() => {});
        connection.close();
      }
    })();
    try {
      deepEqual(await asked(true, { port, word }), "exited 7 ");
      deepEqual(await asked(false, { port, word }), "exited 0 ");
    } finally {
      server.close();
      await answering.catch(() => {});
    }
  },
});
