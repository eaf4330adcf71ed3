/** The answer of a route as a component's state. */

import { useEffect, useState } from "preact/hooks";
import type { AnswerOf, Api, CallOptions, InputOf, RouteName } from "./api.ts";
import { useClient } from "./context.ts";

/** An answer that may still be on its way. */
export interface Loaded<T> {
  /** Null until it is there; the one before stays while the next is loaded. */
  value: T | null;
  error: unknown;
  retry(): void;
}

/** Loads something, and again when `key` changes. The signal ends with the component. */
export function useLoad<T>(load: (api: Api, signal: AbortSignal) => Promise<T>, key: string): Loaded<T> {
  const { api } = useClient(), [attempt, setAttempt] = useState(0);
  const [state, setState] = useState<{ value: T | null; error: unknown }>({ value: null, error: null });
  useEffect(() => {
    const abort = new AbortController();
    load(api, abort.signal).then(
      (value) => abort.signal.aborted || setState({ value, error: null }),
      (error) => abort.signal.aborted || setState(({ value }) => ({ value, error })),
    );
    return () => abort.abort();
  }, [key, attempt]);
  return { ...state, retry: () => setAttempt(attempt + 1) };
}

/** Calls a route, and again when its input or `version` changes. The request ends with the component. */
export function useCall<R extends RouteName>(
  route: R,
  input: InputOf<R>,
  version: unknown = null,
): Loaded<AnswerOf<R>> {
  const call = (api: Api, signal: AbortSignal) => {
    const options: InputOf<R> & CallOptions = { ...input, signal };
    return api.call(route, options);
  };
  return useLoad(call, JSON.stringify([route, input, version]));
}

/** A list that grows when it is asked to. */
export interface Pages<T> extends Loaded<readonly T[]> {
  /** Loads the next page; null when there is none, or one is on its way. */
  more: (() => void) | null;
}

/** Loads the first page of a list, and the others when {@link Pages.more} is called. Begins anew when `key` changes. */
export function usePages<T, P extends { next_cursor: string | null }>(
  page: (api: Api, query: { cursor?: string }, signal: AbortSignal) => Promise<P>,
  itemsOf: (page: P) => readonly T[],
  key: string,
): Pages<T> {
  const [state, setState] = useState<{ of: string; items: readonly T[]; cursor: string | null }>();
  const [wanted, setWanted] = useState<{ of: string; cursor: string | null }>({ of: key, cursor: null });
  const cursor = wanted.of === key ? wanted.cursor : null;
  const { error, retry } = useLoad(async (api, signal) => {
    const answer = await page(api, cursor === null ? {} : { cursor }, signal);
    setState((before) => ({
      of: key,
      items: [...(cursor !== null && before?.of === key ? before.items : []), ...itemsOf(answer)],
      cursor: answer.next_cursor,
    }));
  }, JSON.stringify([key, cursor]));
  const known = state?.of === key ? state : null;
  const is_idle = known !== null && known.cursor !== null && (known.cursor !== cursor || error !== null);
  return {
    value: known?.items ?? null,
    error,
    retry,
    more: is_idle ? () => setWanted({ of: key, cursor: known.cursor }) : null,
  };
}
