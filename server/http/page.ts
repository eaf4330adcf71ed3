/** Pages of lists: `limit`, `cursor` and `next_cursor`. */

import { z } from "zod";
import { invalidRequest } from "./problems.ts";
import { integerParameter } from "./query.ts";

/** The largest page. */
const MAX_PAGE = 500;

const DEFAULT_PAGE = 50;

/** The query parameters of every list. */
export const pageQuery = {
  limit: integerParameter(1, MAX_PAGE).default(DEFAULT_PAGE).meta({
    description: `The most items in the answer, 1 to ${MAX_PAGE}.`,
  }),
  cursor: z.string().optional().meta({ description: "The `next_cursor` of the page before." }),
};

/** The field `next_cursor`, which every answer with a list has. */
export const nextCursor = z.string().nullable().meta({
  description: "The cursor of the next page; null on the last one.",
});

interface PageOf<T> {
  limit: number;
  cursor?: string | undefined;
  /** A key that no two items share; it stays the same while the list changes. */
  keyOf: (item: T) => string;
  /** The keys descend, as ids do in a list that is newest first. Then a cursor stays valid when its item is removed. */
  falling?: boolean;
}

/**
 * A page of a list. It begins after the item that the cursor names, so items that were added or removed elsewhere
 * are neither repeated nor left out.
 *
 * @throws {Problem} `invalid-request` at `/query/cursor` when the cursor cannot be read, or, unless keys are falling, no
 * item of the list has its key.
 */
export function page<T>(
  items: readonly T[],
  { limit, cursor, keyOf, falling = false }: PageOf<T>,
): { items: T[]; next_cursor: string | null } {
  let from = 0;
  if (cursor !== undefined) {
    const key = decodeCursor(cursor);
    if (falling) from = items.filter((item) => keyOf(item) >= key).length;
    else from = items.findIndex((item) => keyOf(item) === key) + 1;
    if (from === 0 && !falling) throw badCursor();
  }
  const found = items.slice(from, from + limit), last = found.at(-1);
  const is_last = last === undefined || from + limit >= items.length;
  return { items: found, next_cursor: is_last ? null : encodeCursor(keyOf(last)) };
}

/** The cursor that names a key. */
export function encodeCursor(key: string): string {
  return new TextEncoder().encode(key).toBase64({ alphabet: "base64url", omitPadding: true });
}

/** The key of a cursor. @throws {Problem} `invalid-request` at `/query/cursor`. */
export function decodeCursor(cursor: string): string {
  try {
    const bytes = Uint8Array.fromBase64(cursor, { alphabet: "base64url" });
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw badCursor();
  }
}

/** The number of a cursor; `absent` without one. @throws {Problem} `invalid-request` at `/query/cursor`. */
export function numberOfCursor(cursor: string | undefined, absent: number): number {
  if (cursor === undefined) return absent;
  const key = decodeCursor(cursor);
  if (!/^\d{1,9}$/.test(key)) throw badCursor();
  return Number(key);
}

/** The refusal of a cursor that cannot be read. */
export function badCursor(): Error {
  const message = "is no cursor of this list; use next_cursor of the previous page, or leave it out";
  return invalidRequest([{ pointer: "/query/cursor", code: "invalid_value", message }]);
}
