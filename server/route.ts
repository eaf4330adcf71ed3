/** A route as it is declared: routing, OpenAPI, checks of the input and tests read nothing else. */

import type { z } from "zod";
import type { DeclaredProblems } from "./problems.ts";
import type { Services } from "./services.ts";

export type Method = "GET" | "POST" | "PATCH" | "DELETE";

/** The names in a path template: `id` of `/v1/runs/{id}`. */
export type PathNames<P extends string> = P extends `${string}{${infer Name}}${infer Rest}`
  ? Name | PathNames<Rest>
  : never;

/** Bodies by media type. JSON is checked against its schema; the schema of any other describes its text. */
export type Content = Readonly<Record<string, z.ZodType>>;

/** What the route takes as a body. */
export interface BodySpec {
  content: Content;
  /** The key of the server's configuration that limits it. */
  limit: "max_body_bytes" | "max_dataset_bytes";
}

/** An answer of one status; without content it has no body. */
export interface AnswerSpec {
  description: string;
  content?: Content;
  /** Headers that only this answer has, with what they say. */
  headers?: Readonly<Record<string, string>>;
}

export type AnswerSpecs = Readonly<Record<number, AnswerSpec>>;

const JSON_TYPE = "application/json";

/** What a handler is called with. */
export interface Call<P extends string = string, Q = unknown, B = unknown, F = unknown> {
  /**
   * As the client sent it, for headers and for `signal`, which aborts when the client leaves. Its URL is normalised:
   * the names and values of the path and of the query are in `params` and `query`.
   */
  request: Request;
  params: Readonly<Record<PathNames<P>, string>>;
  query: Q;
  body: B;
  /** What `find` returned. */
  found: F;
  trace_id: string;
  services: Services;
}

/** A body as the handler gets it: the checked value of JSON, the bytes of anything else, bounded by the limit. */
export type BodyOf<B> = B extends { content: infer C } ? {
    [T in keyof C & string]: T extends typeof JSON_TYPE
      ? { content_type: T; value: C[T] extends z.ZodType ? z.output<C[T]> : never }
      : { content_type: T; stream: ReadableStream<Uint8Array<ArrayBuffer>> };
  }[keyof C & string]
  : null;

type ContentAnswer<S, C> = {
  [T in keyof C & string]: {
    status: S;
    content_type: T;
    body: T extends typeof JSON_TYPE ? (C[T] extends z.ZodType ? z.input<C[T]> : never) : BodyInit;
    headers?: Record<string, string>;
  };
}[keyof C & string];

/** What a handler returns: one of the declared answers. JSON is a value, any other body is what `Response` takes. */
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

/** What every entry of the table says. */
export interface Entry<P extends string = string> {
  method: Method;
  /** The whole path; `{name}` stands for one segment. */
  path: P;
  /** The operation's name, such as `list_runs`: unique, and never renamed. */
  operation: string;
  summary: string;
}

interface RouteSpec<P extends string, Q extends z.ZodObject, B extends BodySpec, A extends AnswerSpecs, F>
  extends Entry<P> {
  /** Parameters behind the path, as the strings that they are sent as. */
  query?: Q;
  body?: B;
  answers: A;
  /** Problems beside those that every route of its form has; see `route_problems.ts`. */
  problems?: DeclaredProblems;
  /** Finds the resource that the path names, before the body is looked at. @throws {Problem} `not-found`. */
  find?: (params: Readonly<Record<PathNames<P>, string>>, services: Services) => Promise<F>;
  handler: (
    call: Call<P, z.output<Q>, BodyOf<B>, F>,
  ) => AnswerOf<A> | Promise<AnswerOf<A>>;
}

/** An entry of the table. Without a handler it is in the contract and not in this build. */
export interface Route extends Entry {
  query?: z.ZodObject;
  body?: BodySpec;
  answers: AnswerSpecs;
  problems?: DeclaredProblems;
  find?: (params: Readonly<Record<string, string>>, services: Services) => Promise<unknown>;
  handler?: (call: Call) => Answer | Promise<Answer>;
}

/** Declares a route; the handler's types follow from what is declared. */
export function route<
  const P extends string,
  const A extends AnswerSpecs,
  Q extends z.ZodObject = z.ZodObject<Record<never, never>>,
  const B extends BodySpec = never,
  F = undefined,
>(spec: RouteSpec<P, Q, B, A, F>): Route {
  return spec as unknown as Route;
}

/** Declares a route of the contract that this build does not have. */
export function notBuilt(entry: Entry): Route {
  return { ...entry, answers: {} };
}

/** A JSON answer. */
export function json<const S extends number, const T>(status: S, body: T) {
  return { status, content_type: JSON_TYPE, body } as const;
}

/** An answer of another type: text, bytes, or a stream of them. */
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

/** Whether a path belongs to the API; everything else has no token and answers in plain text. */
export function isApi(path: string): boolean {
  return path === "/v1" || path.startsWith("/v1/");
}

/** The names in a path template, in their order. */
export function pathNames(path: string): string[] {
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name!);
}
