/** The body of a request: checks its type (415), its size (413), then its content (422). */

import type { ServerConfig } from "../../config/server/schema.ts";
import { nextTurn } from "../../core/pauses.ts";
import { check, firstReasons } from "../http/issues.ts";
import { Problem, type ProblemError } from "../http/problems.ts";
import type { BodySpec, HeaderSpecs } from "./route.ts";
import type { Services } from "./services.ts";
import { parseStrictJson } from "../http/strict_json.ts";

/** A longer text, in characters, is decoded and parsed in two turns, between which other requests are answered. */
const MAX_ONE_TURN = 1 << 20;

export type Bytes = ReadableStream<Uint8Array<ArrayBuffer>>;

/** A body with a valid type and announced size, not yet read. */
export interface OpenBody {
  content_type: string;
  /** Fails with `payload-too-large` above the limit. */
  stream: Bytes;
}

function refuseType(detail: string): Problem {
  const errors: ProblemError[] = [{ pointer: "", code: "unsupported_format", message: detail }];
  return new Problem("unsupported-media-type", detail, { errors });
}

function tooLarge(limit: number): Problem {
  const detail = `The body has more than ${limit} bytes`;
  return new Problem("payload-too-large", detail, {
    errors: [{ pointer: "", code: "out_of_range", message: detail }],
  });
}

/** The declared media type that a header names. Any `+json` is JSON; the only charset is UTF-8. */
function declaredType(header: string | null, declared: readonly string[]): string | null {
  const [name, ...parameters] = (header ?? "").toLowerCase().split(";").map((part) => part.trim());
  const charset = parameters.find((parameter) => parameter.startsWith("charset="))?.slice("charset=".length);
  if (charset !== undefined && charset.replaceAll('"', "") !== "utf-8") return null;
  const type = /^[\w!#$&^.+-]+\/[\w!#$&^.+-]+\+json$/.test(name!) ? "application/json" : name!;
  return declared.includes(type) ? type : null;
}

/** Limits a stream: above the limit it fails. */
function bounded(stream: Bytes, limit: number): Bytes {
  let bytes = 0;
  return stream.pipeThrough(
    new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
      transform(chunk, controller) {
        bytes += chunk.length;
        if (bytes > limit) throw tooLarge(limit);
        controller.enqueue(chunk);
      },
    }),
  );
}

/**
 * Opens the body for a route without reading it.
 *
 * @param spec Null when the route takes no body. A body is then not read, but must be labelled as JSON, so that a form on
 * another site cannot reach the route.
 * @throws {Problem} `unsupported-media-type` or `payload-too-large`.
 */
export function openBody(
  request: Request,
  spec: BodySpec | null,
  config: ServerConfig,
): OpenBody | null {
  if ((!spec || spec.is_optional) && request.body === null) return null;
  const declared = spec ? Object.keys(spec.content) : ["application/json"];
  const content_type = declaredType(request.headers.get("content-type"), declared);
  if (content_type === null) throw refuseType(`The body must be labelled as ${declared.join(" or ")}`);
  const encoding = request.headers.get("content-encoding")?.trim().toLowerCase() ?? "identity";
  if (encoding !== "identity") throw refuseType("The body must have no content encoding");
  if (!spec) return null;
  const limit = config[spec.limit];
  if (Number(request.headers.get("content-length") ?? 0) > limit) throw tooLarge(limit);
  return { content_type, stream: bounded(request.body ?? new Blob([]).stream(), limit) };
}

const NOT_TEXT: ProblemError = { pointer: "", code: "invalid_value", message: "is not UTF-8" };

/** A body as text; null when it is not UTF-8. @throws The stream's error. */
async function decoded(stream: Bytes): Promise<string | null> {
  const bytes = await new Response(stream).bytes();
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return null;
  }
}

/** Reads the body for the handler, with all problems in it. */
export async function readBody(
  open: OpenBody | null,
  spec: BodySpec | null,
  services: Services,
): Promise<{ body: unknown; errors: readonly ProblemError[] }> {
  if (!open || !spec) return { body: null, errors: [] };
  const { content_type, stream } = open, is_json = content_type === "application/json";
  if (!is_json && !spec.read) return { body: { content_type, stream }, errors: [] };
  const text = await decoded(stream);
  if (text === null) return { body: null, errors: [NOT_TEXT] };
  if (text.length > MAX_ONE_TURN) await nextTurn();
  const parsed = is_json ? parseStrictJson(text) : { value: text, is_read: true, errors: [] };
  if (!parsed.is_read) return { body: null, errors: parsed.errors };
  const given = { content_type, value: parsed.value };
  const { body, errors } = spec.read ? spec.read(given, services) : checked(given, spec);
  return { body, errors: firstReasons([...parsed.errors, ...errors]) };
}

function checked(
  { content_type, value: given }: { content_type: string; value: unknown },
  spec: BodySpec,
): { body: unknown; errors: readonly ProblemError[] } {
  const { value, errors } = check({ schema: spec.content[content_type]!, value: given, prefix: "" });
  return { body: { content_type, value }, errors };
}

/** All problems of the headers that a route declares. */
export function headerErrors(headers: Headers, specs: HeaderSpecs = {}): ProblemError[] {
  return Object.entries(specs).flatMap(([name, schema]) => {
    const { errors } = check({ schema, value: headers.get(name) ?? undefined, prefix: "" });
    return errors.map((error) => ({ ...error, message: `the header ${name} ${error.message}` }));
  });
}
