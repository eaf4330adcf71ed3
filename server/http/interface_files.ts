/** The files of the web interface, as the server sends them. */

import { extname } from "node:path";
import { Problem } from "./problems.ts";

/** A file of the interface. */
export interface InterfaceFile {
  content_type: string;
  /** Compressed with gzip. */
  gzipped: Uint8Array<ArrayBuffer>;
  /** Whether its name changes with its content, so that it may be kept for ever. */
  is_immutable: boolean;
}

/** The files by the path of their URL: `/` is the page, and `/assets/<name>` are the files that it loads. */
export type InterfaceFiles = ReadonlyMap<string, InterfaceFile>;

const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".txt": "text/plain; charset=utf-8",
  ".svg": "image/svg+xml",
  ".woff2": "font/woff2",
};

/** The file of a path in the interface's folder, such as `index.html`. @throws {Error} When its type is not known. */
export function interfaceFile(path: string, gzipped: Uint8Array<ArrayBuffer>): [string, InterfaceFile] {
  const content_type = TYPES[extname(path)];
  if (content_type === undefined) throw new Error(`Cannot serve ${path}: no type is known for its name`);
  const url = path === "index.html" ? "/" : `/${path}`;
  return [url, { content_type, gzipped, is_immutable: path.startsWith("assets/") }];
}

const FOR_EVER = "public, max-age=31536000, immutable";
/** The page names the newest files, so it is asked for each time. */
const EACH_TIME = "no-cache";

/** Whether a client takes gzip. */
function takesGzip(accepted: string | null): boolean {
  return (accepted ?? "").split(",").some((item) => {
    const [coding = "", ...parameters] = item.split(";").map((part) => part.trim().toLowerCase());
    return (coding === "gzip" || coding === "*") && !parameters.some((text) => /^q=0(\.0*)?$/.test(text));
  });
}

/** The answer that has a file. */
interface FileAnswer {
  status: 200 | 204;
  content_type?: string;
  body?: Uint8Array;
  headers: Record<string, string>;
}

/** What is asked for: the method as it was sent. */
interface Asked {
  path: string;
  method: string;
  request: Request;
}

/**
 * Answers a request for a file of the interface; null when there is no such file. The files have no data, so they need
 * no token.
 *
 * @throws {Problem} `method-not-allowed`.
 */
export async function interfaceAnswer(
  files: InterfaceFiles | null,
  { path, method, request }: Asked,
): Promise<FileAnswer | null> {
  const file = files?.get(path);
  if (!file) return null;
  const allow = "GET, HEAD, OPTIONS";
  if (method === "OPTIONS") return { status: 204, headers: { allow } };
  if (method === "GET" || method === "HEAD") return await fileAnswer(file, request.headers);
  throw new Problem("method-not-allowed", `This path takes ${allow}`, { headers: { allow } });
}

async function fileAnswer(
  { content_type, gzipped, is_immutable }: InterfaceFile,
  request_headers: Headers,
): Promise<FileAnswer> {
  const is_gzip = takesGzip(request_headers.get("accept-encoding"));
  const plain = () => new Blob([gzipped]).stream().pipeThrough(new DecompressionStream("gzip"));
  const body = is_gzip ? gzipped : await new Response(plain()).bytes();
  const headers = {
    "cache-control": is_immutable ? FOR_EVER : EACH_TIME,
    vary: "accept-encoding",
    "content-length": String(body.length),
    ...(is_gzip && { "content-encoding": "gzip" }),
  };
  return { status: 200, content_type, body, headers };
}
