/** The answer of a route as a component's state. */

import { useEffect, useState } from "preact/hooks";
import type { AnswerOf, Api, CallOptions, InputOf, RouteName } from "./api.ts";
import { useClient } from "./context.ts";

/** An answer that may still be on its way. */
export interface Loaded<T> {
  /** Null until it is there. */
  value: T | null;
  error: unknown;
  retry(): void;
}

/** When something is loaded again, and what is there until it comes. */
export interface Again {
  /** Another version of the same thing: the one before stays until it comes. */
  version?: unknown;
  /** Another thing: the one before stays too, which the component has to tell. */
  keeps_other?: boolean;
}

/** Loads something, and again when `key` or the version changes. The signal ends with the component. */
export function useLoad<T>(
  load: (api: Api, signal: AbortSignal) => Promise<T>,
  key: string,
  { version = null, keeps_other = false }: Again = {},
): Loaded<T> {
  const { api } = useClient(), [attempt, setAttempt] = useState(0);
  const empty = { key, value: null, error: null };
  const [state, setState] = useState<{ key: string; value: T | null; error: unknown }>(empty);
  const isOf = (before: typeof state) => keeps_other || before.key === key;
  useEffect(() => {
    const abort = new AbortController();
    load(api, abort.signal).then(
      (value) => abort.signal.aborted || setState({ key, value, error: null }),
      (error) =>
        abort.signal.aborted ||
        setState((before) => ({ key, value: isOf(before) ? before.value : null, error })),
    );
    return () => abort.abort();
  }, [key, JSON.stringify(version), attempt]);
  const { value, error } = isOf(state) ? state : empty;
  return { value, error, retry: () => setAttempt(attempt + 1) };
}

/** Calls a route, and again when its input or the version changes. The request ends with the component. */
export function useCall<R extends RouteName>(
  route: R,
  input: InputOf<R>,
  again: Again = {},
): Loaded<AnswerOf<R>> {
  const call = (api: Api, signal: AbortSignal) => {
    const options: InputOf<R> & CallOptions = { ...input, signal };
    return api.call(route, options);
  };
  return useLoad(call, JSON.stringify([route, input]), again);
}
