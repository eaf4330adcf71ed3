/** One run: its course, what can be done with it, and what it wrote. */

import type { FunctionComponent } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Run } from "../../api/types.ts";
import { isViewed, LiveRun } from "../client/live_run.ts";
import { MAIN_METRIC } from "../client/main_metric.ts";
import { useCall } from "../client/use_call.ts";
import { useFollowed } from "../client/use_followed.ts";
import { wordsOf } from "../parts/attempt.ts";
import { type Fact, Facts } from "../parts/facts.tsx";
import { durationText, numberText } from "../parts/format.ts";
import { useTitle } from "../parts/page_focus.ts";
import { ProblemBox } from "../parts/problem.tsx";
import { LIVE_STATES, StateBadge } from "../parts/state_badge.tsx";
import { hrefOf, place } from "../routes.ts";
import { compareHref } from "./compare_address.ts";
import { RunCharts } from "./run_charts.tsx";
import { RunConfig } from "./run_config.tsx";
import { RunControls } from "./run_controls.tsx";
import { RunFiles } from "./run_files.tsx";
import { HealthPanel } from "./run_health.tsx";
import { RunJournal } from "./run_journal.tsx";
import { resultText } from "./run_result.ts";
import { TrajectoryGroupView } from "./trajectory_group.tsx";
import { ScenarioHistory, TrajectoryScenarios } from "./trajectory_scenarios.tsx";
import { TrajectorySearch } from "./trajectory_search.tsx";
import { TrajectoryGroups, TrajectoryUpdates } from "./trajectory_updates.tsx";

interface ViewProps {
  live: LiveRun;
  run: Run;
}

const Overview: FunctionComponent<ViewProps> = ({ live, run }) => (
  <>
    <HealthPanel health={live.health.value} is_open={!LIVE_STATES.has(run.state)} />
    <RunCharts live={live} run={run} />
  </>
);

/** The ways into the trajectories, by what follows the run in their addresses. */
const TRAJECTORY_VIEWS: readonly (readonly [label: string, segments: readonly string[]])[] = [
  ["Updates", ["trajectories"]],
  ["Scenarios", ["scenarios"]],
  ["Search", ["trajectories", "search"]],
];

function TrajectoryNav({ id }: { id: string }) {
  const [, , section, part] = place.value.segments;
  const current = section === "scenarios" ? "Scenarios" : part === "search" ? "Search" : "Updates";
  return (
    <nav class="segmented" aria-label="ways into the trajectories">
      {TRAJECTORY_VIEWS.map(([label, segments]) => (
        <a
          key={label}
          href={hrefOf(["runs", id, ...segments])}
          aria-current={label === current ? "page" : undefined}
        >
          {label}
        </a>
      ))}
    </nav>
  );
}

/** Updates, the groups of one, the attempts of a group, or a search, as the address says. */
const Trajectories: FunctionComponent<ViewProps> = ({ run: { id, progress: { update: version } } }) => {
  const [, , , update, group] = place.value.segments;
  if (update !== undefined && group !== undefined) {
    return <TrajectoryGroupView id={id} update={update} group={group} />;
  }
  return (
    <>
      <TrajectoryNav id={id} />
      {update === undefined
        ? <TrajectoryUpdates id={id} version={version} />
        : update === "search"
        ? <TrajectorySearch id={id} />
        : <TrajectoryGroups id={id} update={update} />}
    </>
  );
};

const Scenarios: FunctionComponent<ViewProps> = ({ run: { id, progress: { update: version } } }) => {
  const [, , , scenario] = place.value.segments;
  return (
    <>
      <TrajectoryNav id={id} />
      {scenario === undefined
        ? <TrajectoryScenarios id={id} version={version} />
        : <ScenarioHistory id={id} scenario={scenario} version={version} />}
    </>
  );
};

interface View {
  /** Of its tab. */
  label: string;
  view: FunctionComponent<ViewProps>;
  /** Whether view mode has it too. */
  in_view_mode?: true;
  /** The view whose tab is its own too. */
  within?: string;
  /** It has a page of its own below the tabs, so what the run came to is left out. */
  is_deep?: true;
}

/** The views of a run, by the third segment of their address. */
const VIEWS: Readonly<Record<string, View>> = {
  "": { label: "Charts", view: Overview, in_view_mode: true },
  trajectories: { label: "Trajectories", view: Trajectories, in_view_mode: true, is_deep: true },
  scenarios: {
    label: "Trajectories",
    view: Scenarios,
    in_view_mode: true,
    within: "trajectories",
    is_deep: true,
  },
  journal: { label: "Journal", view: ({ live }) => <RunJournal live={live} /> },
  files: { label: "Checkpoints and files", view: ({ run }) => <RunFiles run={run} /> },
  config: { label: "Configuration", view: ({ run }) => <RunConfig run={run} /> },
};

/** What a process says that it does. */
function phaseOf({ name, done, total }: NonNullable<Run["progress"]["phase"]>, next: string): string {
  const ended = `${done ?? 0} of ${total ?? 0}`;
  switch (name) {
    case "rollouts":
      return `The model attempts the scenarios of ${next}: ${ended} attempts have ended.`;
    case "training":
      return `It trains ${next}.`;
    case "checkpoint":
      return "It writes a checkpoint.";
    case "evaluation":
      return `It evaluates: ${ended} examples are done.`;
  }
}

/** What a run does now, beyond its state; empty when nothing goes on. */
export function phaseText({ state, progress }: Pick<Run, "state" | "progress">): string {
  const { update, updates, phase } = progress;
  const next = `update ${update + 1}${updates === null ? "" : ` of ${updates}`}`;
  switch (state) {
    case "queued":
      return "It waits for the device.";
    case "starting":
      return "It loads the model and opens its data.";
    case "running":
      return phase
        ? phaseOf(phase, next)
        : updates !== null && update >= updates
        ? "All updates are done; it evaluates and writes its results."
        : `It works on ${next}.`;
    case "pausing":
      return `It ends ${next}, then it pauses.`;
    case "stopping":
      return "It writes its last checkpoint.";
    case "paused":
      return "It keeps its place, and goes on when it is resumed.";
    case "interrupted":
      return "Its process ended. It can be resumed from its newest checkpoint.";
    default:
      return "";
  }
}

/** What a run does now, what it came to, or why it failed. What comes while one watches keeps to the line, so that nothing moves. */
function PhaseLine({ run, live }: ViewProps) {
  const { state, error } = run, [was_live] = useState(LIVE_STATES.has(state));
  return (
    <div role="status" class="phase">
      {error
        ? (
          <details class="fold is-failure" open={!was_live}>
            <summary>
              <strong>{wordsOf(error.reason)}</strong> <span>{error.detail}</span>
            </summary>
            <p>{error.detail}</p>
          </details>
        )
        : state === "completed"
        ? <ResultLine run={run} live={live} is_folded={was_live} />
        : phaseText(run)}
    </div>
  );
}

/** What a completed run came to. */
function ResultLine({ run, live, is_folded }: ViewProps & { is_folded: boolean }) {
  const metric = MAIN_METRIC[run.algorithm], end = live.journal.value.findLast(({ kind }) => kind === "end");
  const { value: answer, error } = useCall("GET /v1/runs/{id}/metrics", {
    params: { id: run.id },
    query: { names: [metric], limit: 1 },
  });
  // It comes as a whole.
  if ((!answer && error === null) || (!end && !isViewed(run))) return null;
  const first = answer && "samples" in answer ? answer.samples[0]?.value ?? null : null;
  const evaluation = end?.kind === "end" ? end.evaluation : null;
  const text = resultText({ run, metric, first, seconds: elapsedSeconds(run, Date.now()), evaluation });
  return is_folded
    ? (
      <details class="fold">
        <summary>
          <span>{text}</span>
        </summary>
        <p>{text}</p>
      </details>
    )
    : <p>{text}</p>;
}

/** Which run a fork continues. It comes as a whole once the name is known; a run that is gone has its id for one. */
function ParentLine({ parent: { run: id, checkpoint } }: { parent: NonNullable<Run["parent"]> }) {
  const { value, error } = useCall("GET /v1/runs/{id}", { params: { id } });
  return (
    <p class="parent">
      {(value || error !== null) && (
        <>
          It continues <a href={hrefOf(["runs", id])}>{value?.name ?? id}</a> from {checkpoint}.
        </>
      )}
    </p>
  );
}

/** The time now, each second anew while `is_live`. */
function useNow(is_live: boolean): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    if (!is_live) return;
    const id = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(id);
  }, [is_live]);
  return now;
}

/** Seconds since the run was started, until its end or now; null before its start. */
function elapsedSeconds({ started_at, ended_at }: Run, now: number): number | null {
  if (started_at === null) return null;
  return Math.max(0, new Date(ended_at ?? now).getTime() - new Date(started_at).getTime()) / 1000;
}

function RunFacts({ run }: { run: Run }) {
  return <Facts facts={factsOf(run, useNow(LIVE_STATES.has(run.state)))} />;
}

function factsOf(run: Run, now: number): Fact[] {
  const { progress: { update, updates, eta_seconds }, last_metrics, algorithm } = run;
  const metric = MAIN_METRIC[algorithm];
  return [
    ["Updates", updates === null ? String(update) : `${update} of ${updates}`],
    [metric, numberText(last_metrics[metric])],
    ["Algorithm", algorithm],
    ["Deterministic", run.deterministic ? "yes" : "no"],
    ...(isViewed(run) ? [] : [["Time", durationText(elapsedSeconds(run, now))] as const]),
    // Last, so that nothing moves when the run ends.
    ...(LIVE_STATES.has(run.state) ? [["Left", durationText(eta_seconds)] as const] : []),
  ];
}

export function RunPage() {
  const [, id = "", name = ""] = place.value.segments;
  const live = useFollowed((api) => new LiveRun(api, id), id);
  const run = live.run.value, error = live.error.value;
  useTitle(run && `${run.name} · ${run.state} · svc`);
  if (error !== null) return <ProblemBox error={error} onRetry={() => location.reload()} />;
  // Its key keeps it from becoming another paragraph further down.
  if (!run) return <p key="loading" class="loading">Loading the run …</p>;
  const view = Object.hasOwn(VIEWS, name) ? VIEWS[name]! : VIEWS[""]!, View = view.view;
  const is_away = !live.is_live.value && LIVE_STATES.has(run.state);
  const refresh = () => live.refresh(AbortSignal.timeout(30_000));
  return (
    <>
      <header class="page-head">
        <h1>
          {run.name}
          {run.tags.map((tag) => <span key={tag} class="tag">{tag}</span>)}
        </h1>
        <p class="quiet" role="status">{is_away && "The server is away; trying again …"}</p>
        {run.parent && <a class="button" href={compareHref([run.parent.run, id])}>Compare with its parent</a>}
        <StateBadge state={run.state} />
      </header>
      {!view.is_deep && <PhaseLine run={run} live={live} />}
      {!view.is_deep && run.notes !== "" && <p class="run-notes">{run.notes}</p>}
      {!view.is_deep && run.parent && <ParentLine parent={run.parent} />}
      {!view.is_deep && (
        <>
          {run.progress.updates !== null && (
            <progress value={run.progress.update} max={run.progress.updates} aria-label="progress" />
          )}
          <RunFacts run={run} />
          {!isViewed(run) && <RunControls run={run} onChange={refresh} />}
        </>
      )}
      <nav class="tabs" aria-label="views of this run">
        {Object.entries(VIEWS)
          .filter(([, { in_view_mode, within }]) => (in_view_mode || !isViewed(run)) && within === undefined)
          .map(([key, { label }]) => (
            <a
              key={key}
              href={hrefOf(key === "" ? ["runs", id] : ["runs", id, key])}
              aria-current={VIEWS[key] === view || view.within === key ? "page" : undefined}
            >
              {label}
            </a>
          ))}
      </nav>
      <View live={live} run={run} />
    </>
  );
}
