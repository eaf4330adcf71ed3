/**
 * `deno task dev-ui [--port <n>]`: serves the web interface while it is written, and passes all other requests on to the
 * server at `SVC_URL` (default http://127.0.0.1:8471). The interface is built into a folder of its own whenever its page
 * is loaded after a change, with the headers that the server gives it.
 */

import { parseArgs } from "node:util";
import { loadInterface } from "../cli/interface.ts";
import { errorText } from "../core/errors.ts";
import { HTML_HEADERS } from "../server/http/html.ts";
import { interfaceAnswer, type InterfaceFiles } from "../server/http/interface_files.ts";
import { buildInterface, isBuilt } from "./build_ui.ts";

const DEFAULT_PORT = 8472, DEFAULT_UPSTREAM = "http://127.0.0.1:8471";

/** Headers about one connection, which a proxy does not pass on. */
const OF_CONNECTION = ["connection", "host", "keep-alive", "transfer-encoding", "upgrade"];

/** The interface, built again when a source is newer. */
class FreshInterface {
  readonly #folder: string;
  #files: Promise<InterfaceFiles | null> | null = null;

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** @throws {Error} With the bundler's words when the sources cannot be built. */
  async files({ is_page }: { is_page: boolean }): Promise<InterfaceFiles | null> {
    if (!this.#files || (is_page && !await isBuilt(this.#folder))) {
      this.#files = buildInterface(this.#folder).then(() => loadInterface(this.#folder));
      this.#files.catch(() => this.#files = null);
    }
    return await this.#files;
  }
}

/** Passes a request on, and the answer back as it comes. Both end when the client disconnects. */
async function passOn(request: Request, upstream: string): Promise<Response> {
  const { pathname, search, origin } = new URL(request.url), headers = new Headers(request.headers);
  for (const name of OF_CONNECTION) headers.delete(name);
  // For the server this page is one of its own. That of another site stays what it is, and is refused there.
  if (headers.get("origin") === origin) headers.set("origin", upstream);
  // An answer that is decoded on its way could not be passed on under its headers.
  headers.set("accept-encoding", "identity");
  try {
    return await fetch(`${upstream}${pathname}${search}`, {
      ...{ method: request.method, headers, body: request.body, redirect: "manual", signal: request.signal },
    });
  } catch (error) {
    if (request.signal.aborted) return new Response(null, { status: 499 });
    return new Response(`There is no server at ${upstream}: ${errorText(error)}\n`, { status: 502 });
  }
}

export interface DevServerOptions {
  /** On loopback; 0: a free one. */
  port: number;
  /** The server's URL without a path. */
  upstream: string;
  /** Where the interface is built. */
  folder: string;
}

/** Starts the development server. */
export function startDevServer({ port, upstream, folder }: DevServerOptions): Deno.HttpServer<Deno.NetAddr> {
  const fresh = new FreshInterface(folder);
  return Deno.serve({ hostname: "127.0.0.1", port, onListen: () => {} }, async (request) => {
    const { pathname: path, hostname } = new URL(request.url), { method } = request;
    // Otherwise the name of another site that leads here would be the site of this page.
    if (hostname !== "127.0.0.1" && hostname !== "localhost") return new Response(null, { status: 403 });
    const is_page = path === "/";
    if (!is_page && !path.startsWith("/assets/")) return await passOn(request, upstream);
    try {
      const answer = await interfaceAnswer(await fresh.files({ is_page }), { path, method, request });
      if (!answer) return new Response(null, { status: 404 });
      const { status, headers, body = null, content_type = "" } = answer;
      const of_type = is_page ? HTML_HEADERS : { "content-type": content_type };
      return new Response(body as Uint8Array<ArrayBuffer> | null, {
        ...{ status, headers: { ...headers, ...of_type } },
      });
    } catch (error) {
      return new Response(errorText(error), { status: 500 });
    }
  });
}

if (import.meta.main) {
  const { values } = parseArgs({ options: { port: { type: "string" } } });
  const upstream = new URL(Deno.env.get("SVC_URL") ?? DEFAULT_UPSTREAM).origin;
  const folder = await Deno.makeTempDir({ prefix: "svc-ui-" });
  const { addr } = startDevServer({ port: Number(values.port ?? DEFAULT_PORT), upstream, folder });
  console.log(`the interface is at http://${addr.hostname}:${addr.port}/, for the server at ${upstream}`);
  Deno.addSignalListener("SIGINT", () => {
    Deno.removeSync(folder, { recursive: true });
    Deno.exit(0);
  });
}
