/** Something that a button does, with what came of it. */

import { useRef, useState } from "preact/hooks";

/** The state of an action that may be under way or have failed. */
export interface Action {
  /** Buttons that start it are `aria-disabled` meanwhile: one that is `disabled` would lose the focus. */
  is_busy: boolean;
  /** Null when the last one succeeded. */
  error: unknown;
  /** Does nothing while the last one is under way. */
  start(work: () => Promise<unknown>): void;
  /** Forgets the failure. */
  clear(): void;
}

/** One action at a time. */
export function useAction(): Action {
  const [is_busy, setBusy] = useState(false), [error, setError] = useState<unknown>(null);
  const has_begun = useRef(false);
  const start = (work: () => Promise<unknown>) => {
    if (has_begun.current) return;
    has_begun.current = true;
    setBusy(true);
    setError(null);
    work().catch(setError).finally(() => {
      has_begun.current = false;
      setBusy(false);
    });
  };
  return { is_busy, error, start, clear: () => setError(null) };
}
