/** The answer of a route as a component's state. */

import { useEffect, useState } from "preact/hooks";
import type { AnswerOf, CallOptions, InputOf, RouteName } from "./api.ts";
import { useClient } from "./context.ts";

/** An answer that may still be on its way. */
export interface Loaded<T> {
  /** Null until it is there; the one before stays while the next is loaded. */
  value: T | null;
  error: unknown;
  retry(): void;
}

/** Calls a route, and again when its input or `version` changes. The request ends with the component. */
export function useCall<R extends RouteName>(
  route: R,
  input: InputOf<R>,
  version: unknown = null,
): Loaded<AnswerOf<R>> {
  const { api } = useClient(), [attempt, setAttempt] = useState(0);
  const [state, setState] = useState<{ value: AnswerOf<R> | null; error: unknown }>({
    value: null,
    error: null,
  });
  useEffect(() => {
    const abort = new AbortController();
    const options: InputOf<R> & CallOptions = { ...input, signal: abort.signal };
    api.call(route, options).then(
      (value) => setState({ value: value as AnswerOf<R> | null, error: null }),
      (error) => abort.signal.aborted || setState(({ value }) => ({ value, error })),
    );
    return () => abort.abort();
  }, [route, JSON.stringify(input), version, attempt]);
  return { ...state, retry: () => setAttempt(attempt + 1) };
}
