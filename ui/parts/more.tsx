/** A list of which a part may still be on the server. */

import type { ComponentChildren } from "preact";
import type { Listing } from "../client/use_pages.ts";
import { ProblemBox } from "./problem.tsx";

/** Shows the items that are there, and below them the way to more. */
export function WithMore<T>({ of, what, children }: {
  of: Listing<T>;
  /** "rows". */
  what: string;
  children: (items: readonly T[]) => ComponentChildren;
}) {
  const { items, is_done, is_busy, error, more } = of;
  if (items.length === 0 && error === null && !is_done) return <p class="loading">Loading the {what} …</p>;
  return (
    <>
      {(items.length > 0 || is_done) && children(items)}
      {error !== null && <ProblemBox error={error} onRetry={() => more()} />}
      {error === null && !is_done && (
        <button type="button" aria-disabled={is_busy} onClick={() => more()}>Show more {what}</button>
      )}
    </>
  );
}
