/** A list of the server as a component's state. */

import { useEffect, useMemo, useRef } from "preact/hooks";
import type { AnswerOf, CallOptions, InputOf, RouteName } from "./api.ts";
import { useClient } from "./context.ts";
import { PagedItems } from "./pages.ts";

/** The most items that the server gives at once. */
const PAGE = 500;

/** What every answer of a list has beside its items. */
interface Listed {
  next_cursor: string | null;
}

/** A list of which a part may still be on the server. */
export interface Listing<T> {
  items: readonly T[];
  is_done: boolean;
  is_busy: boolean;
  error: unknown;
  /** Loads at least so many more items, 1 by default. */
  more(least?: number): void;
}

/**
 * The items of a list, from the first page on. Another input begins an empty list. Another `version` of the same input
 * begins again too, and shows the items of the one before until there are as many new ones.
 *
 * @param itemsOf The items of an answer.
 * @param least Items that are loaded at first.
 */
export function usePages<R extends RouteName, T>(
  route: R,
  input: InputOf<R>,
  { itemsOf, version = null, least = 1 }: {
    itemsOf: (answer: AnswerOf<R>) => readonly T[];
    version?: unknown;
    least?: number;
  },
): Listing<T> {
  const { api } = useClient(), key = JSON.stringify([route, input]);
  const list = useMemo(() =>
    new PagedItems<T>(async (cursor, signal) => {
      const given = input as { query?: Record<string, unknown> };
      const query = { limit: PAGE, ...given.query, ...(cursor !== null && { cursor }) };
      const options = { ...input, query, signal } as InputOf<R> & CallOptions;
      const answer: unknown = await api.call(route, options);
      return { items: itemsOf(answer as AnswerOf<R>), next_cursor: (answer as Listed).next_cursor };
    }), [api, key, version]);
  const shown = useRef<{ key: string; items: readonly T[] }>({ key, items: [] });
  const before = shown.current.key === key ? shown.current.items.length : 0;
  useEffect(() => {
    list.more(Math.max(least, before));
    return () => list.close();
  }, [list]);
  const items = list.items.value, is_whole = list.is_done.value || list.error.value !== null;
  if (is_whole || items.length >= before) shown.current = { key, items };
  return {
    items: shown.current.items,
    is_done: list.is_done.value,
    is_busy: list.is_busy.value,
    error: list.error.value,
    more: (least) => void list.more(least),
  };
}
