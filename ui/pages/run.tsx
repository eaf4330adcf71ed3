/** One run: its course, what can be done with it, and what it wrote. */

import type { FunctionComponent } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import type { Run } from "../../api/types.ts";
import { useClient } from "../client/context.ts";
import { isViewed, LiveRun } from "../client/live_run.ts";
import { MAIN_METRIC } from "../client/main_metric.ts";
import { type Fact, Facts } from "../parts/facts.tsx";
import { durationText, numberText } from "../parts/format.ts";
import { ProblemBox } from "../parts/problem.tsx";
import { LIVE_STATES, StateBadge } from "../parts/state_badge.tsx";
import { hrefOf, place } from "../routes.ts";
import { RunCharts } from "./run_charts.tsx";
import { RunConfig } from "./run_config.tsx";
import { RunControls } from "./run_controls.tsx";
import { RunFiles } from "./run_files.tsx";
import { HealthPanel } from "./run_health.tsx";
import { RunJournal } from "./run_journal.tsx";
import { TrajectoryGroupView } from "./trajectory_group.tsx";
import { TrajectoryGroups, TrajectoryUpdates } from "./trajectory_updates.tsx";

interface ViewProps {
  live: LiveRun;
  run: Run;
}

const Overview: FunctionComponent<ViewProps> = ({ live }) => (
  <>
    <HealthPanel health={live.health.value} />
    <RunCharts live={live} />
  </>
);

/** Updates, the groups of one, or the members of one, as the address says. */
const Trajectories: FunctionComponent<ViewProps> = ({ run: { id, progress } }) => {
  const [, , , update, group] = place.value.segments;
  if (update === undefined) return <TrajectoryUpdates id={id} version={progress.update} />;
  if (group === undefined) return <TrajectoryGroups id={id} update={update} />;
  return <TrajectoryGroupView id={id} update={update} group={group} />;
};

interface View {
  label: string;
  view: FunctionComponent<ViewProps>;
  /** Whether view mode has it too. */
  in_view_mode?: true;
}

/** The views of a run, by the third segment of their address. */
const VIEWS: Readonly<Record<string, View>> = {
  "": { label: "Charts", view: Overview, in_view_mode: true },
  trajectories: { label: "Trajectories", view: Trajectories, in_view_mode: true },
  journal: { label: "Journal", view: ({ live }) => <RunJournal live={live} /> },
  files: { label: "Checkpoints and files", view: ({ run }) => <RunFiles run={run} /> },
  config: { label: "Configuration", view: ({ run }) => <RunConfig run={run} /> },
};

function factsOf(run: Run): Fact[] {
  const { progress: { update, updates, eta_seconds }, last_metrics, algorithm } = run;
  const metric = MAIN_METRIC[algorithm];
  return [
    ["Updates", updates === null ? String(update) : `${update} of ${updates}`],
    ...(LIVE_STATES.has(run.state) ? [["Left", durationText(eta_seconds)] as const] : []),
    [metric, numberText(last_metrics[metric])],
    ["Algorithm", algorithm],
    ["Deterministic", run.deterministic ? "yes" : "no"],
  ];
}

export function RunPage() {
  const [, id = "", name = ""] = place.value.segments, { api } = useClient();
  const live = useMemo(() => new LiveRun(api, id), [api, id]);
  useEffect(() => {
    const abort = new AbortController();
    live.follow(abort.signal);
    return () => abort.abort();
  }, [live]);
  const run = live.run.value, error = live.error.value;
  if (error !== null) return <ProblemBox error={error} onRetry={() => location.reload()} />;
  if (!run) return <p class="loading">Loading the run …</p>;
  const view = Object.hasOwn(VIEWS, name) ? VIEWS[name]! : VIEWS[""]!, View = view.view;
  const refresh = () => live.refresh(AbortSignal.timeout(30_000));
  return (
    <>
      <header class="page-head">
        <h1>{run.name}</h1>
        <StateBadge state={run.state} />
      </header>
      {!live.is_live.value && LIVE_STATES.has(run.state) && (
        <p class="quiet" role="status">The server is away; trying again …</p>
      )}
      {run.error && (
        <div class="problem" role="alert">
          <h3>{run.error.reason.replaceAll("_", " ")}</h3>
          <p>{run.error.detail}</p>
        </div>
      )}
      {run.progress.updates !== null && (
        <progress value={run.progress.update} max={run.progress.updates} aria-label="progress" />
      )}
      <Facts facts={factsOf(run)} />
      {!isViewed(run) && <RunControls run={run} onChange={refresh} />}
      <nav class="tabs" aria-label="views of this run">
        {Object.entries(VIEWS).filter(([, { in_view_mode }]) => in_view_mode || !isViewed(run)).map((
          [key, { label }],
        ) => (
          <a
            key={key}
            href={hrefOf(key === "" ? ["runs", id] : ["runs", id, key])}
            aria-current={VIEWS[key] === view ? "page" : undefined}
          >
            {label}
          </a>
        ))}
      </nav>
      <View live={live} run={run} />
    </>
  );
}
