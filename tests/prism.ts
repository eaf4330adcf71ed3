/** Prism, a proxy that checks every request and every answer against api/openapi.json. */

import { fileURLToPath } from "node:url";

const FOLDER = fileURLToPath(new URL("prism", import.meta.url));
const OPENAPI = fileURLToPath(new URL("../api/openapi.json", import.meta.url));

/** Why Prism cannot run here, or null when it can. */
export function prismMissing(): string | null {
  try {
    Deno.statSync(`${FOLDER}/node_modules/@stoplight/prism-cli`);
    return null;
  } catch {
    return "@stoplight/prism-cli is not installed, ./dev test installs it with npm";
  }
}

/** A running proxy. */
export interface Prism extends AsyncDisposable {
  url: string;
}

/** A port that nothing listens at. */
function freePort(): number {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  return (listener.addr as Deno.NetAddr).port;
}

/**
 * Puts the proxy in front of a server.
 *
 * @param errors Whether a request or an answer that the document does not allow becomes an error of the proxy. Otherwise
 * it is passed on, and the header `sl-violations` says what was wrong.
 */
export async function startPrism(server_url: string, { errors }: { errors: boolean }): Promise<Prism> {
  const port = freePort();
  const child = new Deno.Command(Deno.execPath(), {
    args: [
      "run",
      "-A",
      "--no-config",
      "--node-modules-dir=manual",
      "node_modules/@stoplight/prism-cli/dist/index.js",
    ]
      .concat(["proxy", OPENAPI, server_url, "--port", String(port), ...(errors ? ["--errors"] : [])]),
    cwd: FOLDER,
    env: { SCARF_ANALYTICS: "false" },
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const rest = new Response(child.stderr).text();
  const reader = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  while (!/Prism is listening/.test(text)) {
    const { value, done } = await reader.read();
    if (done) throw new Error(`Prism ended: ${text}${await rest}`);
    text += value;
  }
  const draining = (async () => {
    while (!(await reader.read()).done);
  })();
  return {
    url: `http://127.0.0.1:${port}`,
    async [Symbol.asyncDispose]() {
      child.kill("SIGTERM");
      await Promise.all([child.status, draining, rest]);
    },
  };
}
