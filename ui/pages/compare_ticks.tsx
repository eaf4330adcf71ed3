/** The choice of runs that are compared, in the list of all runs. */

import { useState } from "preact/hooks";
import type { Run } from "../../api/types.ts";
import { compareHref, compareObstacle } from "./compare_address.ts";

/** The ticked runs, in the order in which they were ticked. */
export interface Ticks {
  ids: readonly string[];
  set(id: string, is_ticked: boolean): void;
  clear(): void;
}

/** Ticks of runs that are still there. */
export function useTicked(runs: readonly Run[] | null): Ticks {
  const [ticked, setTicked] = useState<readonly string[]>([]);
  return {
    ids: ticked.filter((id) => runs?.some((run) => run.id === id)),
    set: (id, is_ticked) =>
      setTicked((before) => [...before.filter((other) => other !== id), ...(is_ticked ? [id] : [])]),
    clear: () => setTicked([]),
  };
}

export function Tick({ run: { id, name }, ticks }: { run: Run; ticks: Ticks }) {
  return (
    <input
      type="checkbox"
      aria-label={`Tick ${name}`}
      checked={ticks.ids.includes(id)}
      onChange={({ currentTarget }) => ticks.set(id, currentTarget.checked)}
    />
  );
}

/** The way to the comparison, or what is missing for it. */
export function CompareTicked({ ticks: { ids, clear } }: { ticks: Ticks }) {
  const obstacle = compareObstacle(ids.length);
  return (
    <div class="compare-ticked">
      <span id="compare-obstacle" class="quiet" role="status">{obstacle}</span>
      {ids.length > 0 && <button type="button" class="plain" onClick={clear}>Untick all</button>}
      {obstacle === null
        ? <a class="button" href={compareHref(ids)}>Compare {ids.length} runs</a>
        : <button type="button" disabled aria-describedby="compare-obstacle">Compare</button>}
    </div>
  );
}
