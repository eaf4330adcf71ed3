/** What stands in the place of something that is not there yet. */

import type { ComponentChildren } from "preact";
import type { Loaded } from "../client/use_call.ts";
import { ProblemBox } from "./problem.tsx";

export function Loading<T>({ of, what, children }: {
  of: Loaded<T>;
  /** "the groups". */
  what: string;
  children: (value: T) => ComponentChildren;
}) {
  if (of.error !== null) return <ProblemBox error={of.error} onRetry={of.retry} />;
  return of.value === null ? <p class="loading">Loading {what} …</p> : <>{children(of.value)}</>;
}
