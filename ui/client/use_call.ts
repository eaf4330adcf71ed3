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
