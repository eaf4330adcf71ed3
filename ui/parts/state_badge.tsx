/** The state of a run: a sign and a word, so that it does not depend on colour. */

import type { Run } from "../../api/types.ts";

type State = Run["state"];

const SIGNS: Readonly<Record<State, string>> = {
  queued: "…",
  starting: "▷",
  running: "▶",
  pausing: "‖",
  paused: "‖",
  stopping: "■",
  completed: "✓",
  cancelled: "■",
  failed: "✕",
  interrupted: "!",
};

/** The states in which a run will change by itself. */
export const LIVE_STATES: ReadonlySet<State> = new Set([
  "queued",
  "starting",
  "running",
  "pausing",
  "paused",
  "stopping",
]);

export function StateBadge({ state }: { state: State }) {
  return (
    <span class={`badge state-${state}`}>
      <span aria-hidden="true">{SIGNS[state]}</span> {state}
    </span>
  );
}
