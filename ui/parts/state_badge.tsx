/** The states of a run, and how a state is shown: a sign and a word, so that it does not depend on colour. */

import type { Run } from "../../api/types.ts";

type State = Run["state"];

/** All states in the order of a run's life: the type has each of the API's, and no other. */
const TABLE: Readonly<Record<State, { sign: string; is_live: boolean }>> = {
  queued: { sign: "…", is_live: true },
  starting: { sign: "▷", is_live: true },
  running: { sign: "▶", is_live: true },
  pausing: { sign: "‖", is_live: true },
  paused: { sign: "‖", is_live: true },
  stopping: { sign: "■", is_live: true },
  completed: { sign: "✓", is_live: false },
  cancelled: { sign: "■", is_live: false },
  failed: { sign: "✕", is_live: false },
  interrupted: { sign: "!", is_live: false },
};

/** All states of a run. */
export const RUN_STATES = Object.keys(TABLE) as readonly State[];

/** The states of a run that has neither ended nor been interrupted. */
export const LIVE_STATES: ReadonlySet<State> = new Set(RUN_STATES.filter((state) => TABLE[state].is_live));

export function StateBadge({ state }: { state: State }) {
  return (
    <span class={`badge state-${state}`}>
      <span aria-hidden="true">{TABLE[state].sign}</span> {state}
    </span>
  );
}
