/** The declaration of a route. Routing, OpenAPI, input checks and tests read only this. */

import { z } from "zod";
import type { DeclaredProblems, ProblemError } from "../http/problems.ts";
import type { Services } from "./services.ts";

export type Method = "GET" | "POST" | "PATCH" | "DELETE";

/** The names in a path template: `id` of `/v1/runs/{id}`. */
type PathNames<P extends string> = P extends `${string}{${infer Name}}${infer Rest}` ? Name | PathNames<Rest>
  : never;

/** Bodies by media type. JSON is checked against its schema; any other schema describes the text. */
export type MediaSchemas = Readonly<Record<string, z.ZodType>>;

/** The request body of a route. */
export interface BodySpec {
  content: MediaSchemas;
  /**
   * Reads a body that may have several forms, and lists all problems of the form that the client chose. Its input is the
   * value of JSON, which has not been checked, or the text of another type.
   */
  read?: (
    given: { content_type: string; value: unknown },
    services: Services,
  ) => { body: unknown; errors: readonly ProblemError[] };
  /** The configuration key of its size limit. */
  limit: "max_body_bytes" | "max_dataset_bytes";
  /** Whether a request may have no body. */
  is_optional?: boolean;
}

/** The data of events by name; an event without a name is a `message`. */
export type EventSpecs = Readonly<Record<string, z.ZodType>>;

/** An answer with one status; without content it has no body. */
export interface AnswerSpec {
  description: string;
  content?: MediaSchemas;
  /** The JSON data of each event by the event's name, in an answer that is a stream of events. */
  events?: EventSpecs;
  /** Headers of this answer only, with descriptions. */
  headers?: Readonly<Record<string, string>>;
}

type AnswerSpecs = Readonly<Record<number, AnswerSpec>>;

/** Request headers by name, with the schema of their text. */
export type HeaderSpecs = Readonly<Record<string, z.ZodType>>;

const JSON_TYPE = "application/json";

/** The argument of a handler. */
export interface Call<P extends string = string, Q = unknown, B = unknown, F = unknown> {
  /**
   * The client's request, for headers and for `signal`, which aborts when the client disconnects. Its URL is normalised:
   * take path and query values from `params` and `query`.
   */
  request: Request;
  params: Readonly<Record<PathNames<P>, string>>;
  query: Q;
  body: B;
  /** The return value of `find`. */
  found: F;
  trace_id: string;
  services: Services;
}

/** A handler's body: the result of the route's `read`, or the checked value of JSON, else the bytes, limited in size. */
type BodyOf<B> = B extends { read: (...given: never[]) => { body: infer R } } ? R
  : B extends { content: infer C } ?
      | {
        [T in keyof C & string]: T extends typeof JSON_TYPE
          ? { content_type: T; value: C[T] extends z.ZodType ? z.output<C[T]> : never }
          : { content_type: T; stream: ReadableStream<Uint8Array<ArrayBuffer>> };
      }[keyof C & string]
      | (B extends { is_optional: true } ? null : never)
  : null;

type ContentAnswer<S, C> = {
  [T in keyof C & string]: {
    status: S;
    content_type: T;
    body: T extends typeof JSON_TYPE ? (C[T] extends z.ZodType ? z.input<C[T]> : never) | JsonPieces
      : BodyInit;
    headers?: Record<string, string>;
  };
}[keyof C & string];

/**
 * A handler's return value: one of the declared answers. A JSON body is a value or {@link JsonPieces}; any other body is
 * of a type that `Response` accepts.
 */
export type AnswerOf<A> = {
  [S in keyof A & number]: A[S] extends { content: infer C } ? ContentAnswer<S, C>
    : { status: S; headers?: Record<string, string> };
}[keyof A & number];

/** An answer of any route. */
export interface Answer {
  status: number;
  content_type?: string;
  body?: unknown;
  headers?: Record<string, string>;
}

/** The declared part of a table entry. */
export interface Entry<P extends string = string> {
  method: Method;
  /** The full path; `{name}` matches one segment. */
  path: P;
  /** The operation's name, such as `list_runs`: unique, and never renamed. */
  operation: string;
  summary: string;
}

interface RouteSpec<P extends string, Q extends z.ZodObject, B extends BodySpec, A extends AnswerSpecs, F>
  extends Entry<P> {
  /** Query parameters, as the strings that clients send. */
  query?: Q;
  /** Headers with a form of their own, by name. A problem with one is at `""`. */
  headers?: HeaderSpecs;
  body?: B;
  answers: A;
  /** Problems besides those of every route of its form; see `route_problems.ts`. */
  problems?: DeclaredProblems;
  /** View mode has the route as well. */
  in_view_mode?: true;
  /** Why the operator's configuration leaves the route out; null when it does not. */
  offReason?: (services: Services) => string | null;
  /** Problems have the member `error`, in OpenAI's form. */
  has_openai_error?: boolean;
  /** Finds the resource of the path before the body is checked. @throws {Problem} `not-found`. */
  find?: (params: Readonly<Record<PathNames<P>, string>>, services: Services) => Promise<F>;
  handler: (
    call: Call<P, z.output<Q>, BodyOf<B>, F>,
  ) => AnswerOf<A> | Promise<AnswerOf<A>>;
}

/** An entry of the table. */
export interface Route extends Entry {
  query?: z.ZodObject;
  headers?: HeaderSpecs;
  body?: BodySpec;
  answers: AnswerSpecs;
  problems?: DeclaredProblems;
  in_view_mode?: true;
  offReason?: (services: Services) => string | null;
  has_openai_error?: boolean;
  find?: (params: Readonly<Record<string, string>>, services: Services) => Promise<unknown>;
  handler: (call: Call) => Answer | Promise<Answer>;
}

/**
 * Declares a route; the handler's types follow from the declaration.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 * import { z } from "zod";
 *
 * const greeting = route({
 *   ...{ method: "GET", path: "/v1/greetings/{name}", operation: "get_greeting", summary: "A greeting." },
 *   answers: { 200: { description: "The greeting.", content: { "application/json": z.string() } } },
 *   handler: ({ params }) => json(200, `Hello, ${params.name}`),
 * });
 * assert.deepEqual([greeting.operation, isApi(greeting.path)], ["get_greeting", true]);
 * ```
 */
export function route<
  const P extends string,
  const A extends AnswerSpecs,
  Q extends z.ZodObject = z.ZodObject<Record<never, never>>,
  const B extends BodySpec = never,
  F = undefined,
>(spec: RouteSpec<P, Q, B, A, F>): Route {
  return spec as unknown as Route;
}

/** A JSON answer. */
export function json<const S extends number, const T>(status: S, body: T) {
  return { status, content_type: JSON_TYPE, body } as const;
}

/** The JSON bytes of objects that never change, once they are made. */
const constants = new WeakMap<object, Uint8Array<ArrayBuffer> | null>();

/** JSON of an object that never changes: its text is made once. */
export function constantJson<const S extends number, const T extends object>(status: S, body: T) {
  if (!constants.has(body)) constants.set(body, null);
  return json(status, body);
}

/** A value as JSON in UTF-8. */
export function jsonBytes(value: unknown): Uint8Array<ArrayBuffer> {
  const is_constant = typeof value === "object" && value !== null && constants.has(value);
  const known = is_constant ? constants.get(value) : null;
  if (known) return known;
  const bytes = new TextEncoder().encode(JSON.stringify(value));
  if (is_constant) constants.set(value, bytes);
  return bytes;
}

/** A value in JSON text that is made in pieces. */
export class JsonPart {
  constructor(readonly value: unknown, readonly schema: z.ZodType) {}
}

/**
 * JSON text that is made in pieces, because making all of it at once would delay other requests. A value that may have
 * prose is a {@link JsonPart}.
 */
export class JsonPieces {
  constructor(readonly pieces: AsyncIterable<string | JsonPart>) {}

  stream(shownPart: (part: JsonPart) => unknown): ReadableStream<Uint8Array<ArrayBuffer>> {
    const { pieces } = this;
    return textStream((async function* () {
      for await (const piece of pieces) {
        yield typeof piece === "string" ? piece : JSON.stringify(shownPart(piece));
      }
    })());
  }
}

/** A JSON answer in pieces, whose text together is that of a declared value. */
export function jsonPieces<const S extends number>(status: S, pieces: AsyncIterable<string | JsonPart>) {
  return { status, content_type: JSON_TYPE, body: new JsonPieces(pieces) } as const;
}

/** Text as UTF-8, made as fast as it is read. */
export function textStream(pieces: AsyncIterable<string>): ReadableStream<Uint8Array<ArrayBuffer>> {
  return ReadableStream.from(pieces).pipeThrough(new TextEncoderStream());
}

/** An answer of another media type: text, bytes, or a stream of them. */
export function raw<const S extends number, const T extends string>(
  status: S,
  content_type: T,
  body: BodyInit,
) {
  return { status, content_type, body } as const;
}

/** An answer without a body. */
export function empty<const S extends number>(status: S) {
  return { status } as const;
}

/** The refusal of a route outside the API. */
export const FOREIGN_HOST: AnswerSpec = {
  description: "The Host or Origin is not allowed.",
  content: { "text/plain": z.string() },
};

/** Whether a path belongs to the API; other paths need no token and answer in plain text. */
export function isApi(path: string): boolean {
  return path === "/v1" || path.startsWith("/v1/");
}

/** The names in a path template, in order. */
export function pathNames(path: string): string[] {
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name!);
}
