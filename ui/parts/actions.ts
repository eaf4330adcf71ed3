/** Something that a button does, with what came of it. */

import { useState } from "preact/hooks";

/** The state of an action that may be under way or have failed. */
export interface Action {
  is_busy: boolean;
  /** Null when the last one succeeded. */
  error: unknown;
  start(work: () => Promise<unknown>): void;
  /** Forgets the failure. */
  clear(): void;
}

/** One action at a time. */
export function useAction(): Action {
  const [is_busy, setBusy] = useState(false), [error, setError] = useState<unknown>(null);
  const start = (work: () => Promise<unknown>) => {
    setBusy(true);
    setError(null);
    work().catch(setError).finally(() => setBusy(false));
  };
  return { is_busy, error, start, clear: () => setError(null) };
}
