/** All runs: state, progress and the course of the reward or loss. */

import { useEffect, useRef, useState } from "preact/hooks";
import type { Run } from "../../api/types.ts";
import { useClient } from "../client/context.ts";
import { isViewed } from "../client/live_run.ts";
import { MAIN_METRIC } from "../client/main_metric.ts";
import { RunList } from "../client/run_list.ts";
import { useFollowed } from "../client/use_followed.ts";
import type { Listing } from "../client/use_pages.ts";
import { durationText, numberText, timeText } from "../parts/format.ts";
import { useInView } from "../parts/in_view.ts";
import { type Column, ListTable } from "../parts/list_table.tsx";
import { WithMore } from "../parts/more.tsx";
import { ProblemBox } from "../parts/problem.tsx";
import { Sparkline } from "../parts/sparkline.tsx";
import { LIVE_STATES, RUN_STATES, StateBadge } from "../parts/state_badge.tsx";
import { hrefOf, place, replacePlace } from "../routes.ts";
import { CompareTicked, Tick, type Ticks, useTicked } from "./compare_ticks.tsx";

/** Points of a line in the list. */
const SPARKLINE_BUCKETS = 48;

/** The course of a run's main metric: asked for while its row is in view, and again after each update. */
function useCourse(run: Run, is_in_view: boolean): readonly number[] {
  const { api } = useClient(), [values, setValues] = useState<readonly number[]>([]);
  const name = MAIN_METRIC[run.algorithm], { update } = run.progress, loaded = useRef(-1);
  useEffect(() => {
    if (!is_in_view || loaded.current === update) return;
    const abort = new AbortController();
    api.call("GET /v1/runs/{id}/metrics", {
      params: { id: run.id },
      query: { names: [name], buckets: SPARKLINE_BUCKETS },
      signal: abort.signal,
    }).then((answer) => {
      if (!("buckets" in answer)) return;
      loaded.current = update;
      setValues(answer.buckets.map(({ mean }) => mean));
    }, () => {/* the row shows its last value all the same */});
    return () => abort.abort();
  }, [run.id, update, is_in_view]);
  return values;
}

function Progress({ run: { progress, state } }: { run: Run }) {
  const { update, updates, eta_seconds } = progress;
  return (
    <div class="progress">
      {updates !== null && <progress value={update} max={updates} aria-label="progress" />}
      <span>
        {updates === null ? `update ${update}` : `${update} of ${updates}`}{" "}
        {eta_seconds !== null && LIVE_STATES.has(state) && (
          <span class="quiet">· {durationText(eta_seconds)} left</span>
        )}
      </span>
    </div>
  );
}

function Row({ run, ticks }: { run: Run; ticks: Ticks }) {
  const { ref, is_in_view } = useInView<HTMLTableRowElement>();
  const course = useCourse(run, is_in_view), name = MAIN_METRIC[run.algorithm], last = run.last_metrics[name];
  return (
    <tr ref={ref}>
      <td class="tick">
        <Tick run={run} ticks={ticks} />
      </td>
      <th scope="row" class="name">
        <a href={hrefOf(["runs", run.id])}>{run.name}</a>
        {run.tags.map((tag) => <span key={tag} class="tag">{tag}</span>)}
      </th>
      <td class="state">
        <StateBadge state={run.state} />
        {run.state === "failed" && run.error && <div class="quiet">{run.error.reason}</div>}
      </td>
      <td class="algorithm">{run.algorithm}</td>
      <td class="course-progress">
        <Progress run={run} />
      </td>
      <td class="number value">
        {numberText(last)} <span class="quiet">{name}</span>
      </td>
      <td class="course">
        <Sparkline values={course} label={`${name} over the updates, last ${numberText(last)}`} />
      </td>
      <td class="created">
        <time dateTime={run.created_at}>{timeText(run.created_at)}</time>
      </td>
    </tr>
  );
}

function Filters() {
  const { query } = place.value;
  const change = (name: string, value: string) =>
    replacePlace(["runs"], { ...Object.fromEntries(query), [name]: value });
  return (
    <form class="filters" role="search" onSubmit={(event) => event.preventDefault()}>
      <label class="field">
        <span>Name or tag</span>
        <input
          type="search"
          value={query.get("text") ?? ""}
          onInput={({ currentTarget }) => change("text", currentTarget.value)}
        />
      </label>
      <label class="field">
        <span>State</span>
        <select
          value={query.get("state") ?? ""}
          onChange={({ currentTarget }) => change("state", currentTarget.value)}
        >
          <option value="">any</option>
          {RUN_STATES.map((state) => <option key={state}>{state}</option>)}
        </select>
      </label>
      <label class="field">
        <span>Algorithm</span>
        <select
          value={query.get("algorithm") ?? ""}
          onChange={({ currentTarget }) => change("algorithm", currentTarget.value)}
        >
          <option value="">any</option>
          {Object.keys(MAIN_METRIC).map((algorithm) => <option key={algorithm}>{algorithm}</option>)}
        </select>
      </label>
    </form>
  );
}

/** Whether a run passes the filters of the address. */
export function passes(run: Run, query: URLSearchParams): boolean {
  const text = query.get("text")?.toLowerCase() ?? "", state = query.get("state");
  const algorithm = query.get("algorithm");
  return [run.name, ...run.tags].some((word) => word.toLowerCase().includes(text)) &&
    (!state || run.state === state) && (!algorithm || run.algorithm === algorithm);
}

function Empty({ is_filtered }: { is_filtered: boolean }) {
  return (
    <div class="empty">
      {is_filtered ? <p>No run passes these filters.</p> : (
        <>
          <h2>No runs yet</h2>
          <p>
            A run trains an adapter for a model. Choose a model and data, and see before it starts what it
            needs.
          </p>
          <a class="button primary" href={hrefOf(["new"])}>New run</a>
        </>
      )}
    </div>
  );
}

const COLUMNS: readonly Column[] = [
  { name: "ticks", heading: <span class="unseen">Ticked</span> },
  "Run",
  "State",
  "Algorithm",
  "Progress",
  { number: "Last value" },
  "Trend",
  "Created",
];

/** Rows that the list has at first, and that each step adds. */
export const RUNS_AT_ONCE = 100;

/** The first of the runs, and the way to further ones. @param onMore Takes how many are to be shown then. */
export function firstOf(runs: readonly Run[], count: number, onMore: (count: number) => void): Listing<Run> {
  return {
    items: runs.slice(0, count),
    is_done: runs.length <= count,
    ...{ is_busy: false, error: null },
    more: () => onMore(count + RUNS_AT_ONCE),
  };
}

export function RunsPage() {
  const [count, setCount] = useState(RUNS_AT_ONCE);
  const list = useFollowed((api) => new RunList(api));
  const runs = list.runs.value, error = list.error.value, { query } = place.value;
  const ticks = useTicked(runs), viewed = runs?.find(isViewed);
  // View mode has one run, which needs no list.
  useEffect(() => {
    if (viewed) replacePlace(["runs", viewed.id], {});
  }, [viewed]);
  if (error !== null) return <ProblemBox error={error} onRetry={() => location.reload()} />;
  if (viewed) return <p class="loading">Loading the run …</p>;
  const shown = runs?.filter((run) => passes(run, query)) ?? [];
  return (
    <>
      <header class="page-head">
        <h1>Runs</h1>
        {!list.is_live.value && <p class="quiet" role="status">The server is away; trying again …</p>}
        {runs !== null && runs.length > 0 && <CompareTicked ticks={ticks} />}
        <a class="button primary" href={hrefOf(["new"])}>New run</a>
      </header>
      <Filters />
      {runs === null
        ? <p class="loading">Loading runs …</p>
        : shown.length === 0
        ? <Empty is_filtered={runs.length > 0} />
        : (
          <WithMore of={firstOf(shown, count, setCount)} what="runs">
            {(rows) => (
              <ListTable kind="runs-table" columns={COLUMNS}>
                {rows.map((run) => <Row key={run.id} run={run} ticks={ticks} />)}
              </ListTable>
            )}
          </WithMore>
        )}
    </>
  );
}
