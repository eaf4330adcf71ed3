/** Pages of lists: `limit`, `cursor` and `next_cursor`. */

import { z } from "zod";
import { invalidRequest } from "./problems.ts";
import { integerParameter } from "./query.ts";

/** The largest page. */
const MAX_PAGE = 500;

const DEFAULT_PAGE = 50;

/** The field `next_cursor`, which every answer with a list has. */
export const nextCursor = z.string().nullable().meta({
  description: "The cursor of the next page; null on the last one.",
});

/** Keys that are numbers from 0, in the order of the list. */
export const NUMBER_KEYS = /^(0|[1-9]\d{0,14})$/;

/** Keys of which only those of the list's items are valid. */
export const ANY_KEYS = /^/;

const NOT_OWN = "is no cursor of this list; use next_cursor of the previous page, or leave it out";

interface PageOf<T> {
  limit: number;
  cursor?: string | undefined;
  /** A key that no two items share; it stays the same while the list changes. */
  keyOf: (item: T) => string;
  /** The keys descend, as ids do in a list that is newest first. Then a cursor stays valid when its item is removed. */
  falling?: boolean;
}

/** A list in pages. Its cursors have its name and the key of an item, so that no other list takes them. */
export class PagedList {
  /** The query parameters of the list. */
  readonly query = {
    limit: integerParameter(1, MAX_PAGE).default(DEFAULT_PAGE).meta({
      description: `The most items in the answer, 1 to ${MAX_PAGE}.`,
    }),
    cursor: z.string().refine((cursor) => this.#keyOf(cursor) !== null, { error: NOT_OWN }).optional().meta({
      description: "The `next_cursor` of the page before.",
    }),
  };

  /** @param name Unique among lists. @param keys The form of its keys. */
  constructor(readonly name: string, readonly keys: RegExp) {}

  /** The cursor that names a key. */
  cursorOf(key: string | number): string {
    const bytes = new TextEncoder().encode(`${this.name}:${key}`);
    return bytes.toBase64({ alphabet: "base64url", omitPadding: true });
  }

  /** The key of a cursor; null without one. @throws {Problem} `invalid-request` at `/query/cursor`. */
  keyOf(cursor: string | undefined): string | null {
    if (cursor === undefined) return null;
    const key = this.#keyOf(cursor);
    if (key === null) throw badCursor();
    return key;
  }

  /** The number that is the key of a cursor; `absent` without one. @throws {Problem} Like {@link keyOf}. */
  numberOf(cursor: string | undefined, absent: number): number {
    return Number(this.keyOf(cursor) ?? absent);
  }

  /**
   * A page of the list. It begins after the item that the cursor names, so items that were added or removed elsewhere
   * are neither repeated nor left out.
   *
   * @throws {Problem} `invalid-request` at `/query/cursor` when the cursor is not the list's own, or, unless keys are
   * falling, no item of the list has its key.
   */
  page<T>(
    items: readonly T[],
    { limit, cursor, keyOf, falling = false }: PageOf<T>,
  ): { items: T[]; next_cursor: string | null } {
    const key = this.keyOf(cursor);
    let from = 0;
    if (key !== null) {
      if (falling) from = items.filter((item) => keyOf(item) >= key).length;
      else from = items.findIndex((item) => keyOf(item) === key) + 1;
      if (from === 0 && !falling) throw badCursor();
    }
    const found = items.slice(from, from + limit), last = found.at(-1);
    const is_last = last === undefined || from + limit >= items.length;
    return { items: found, next_cursor: is_last ? null : this.cursorOf(keyOf(last)) };
  }

  /** The key of a cursor; null when it is not of this list. */
  #keyOf(cursor: string): string | null {
    let text: string;
    try {
      const bytes = Uint8Array.fromBase64(cursor, { alphabet: "base64url" });
      text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    } catch {
      return null;
    }
    const start = `${this.name}:`, key = text.slice(start.length);
    return text.startsWith(start) && this.keys.test(key) ? key : null;
  }
}

/** The refusal of a cursor that is not the list's own. */
function badCursor(): Error {
  return invalidRequest([{ pointer: "/query/cursor", code: "invalid_value", message: NOT_OWN }]);
}
