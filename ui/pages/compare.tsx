/** Two to eight runs beside each other. */

import type { FunctionComponent } from "preact";
import { useState } from "preact/hooks";
import type { Run } from "../../api/types.ts";
import { allPages, ApiProblem } from "../client/api.ts";
import { useLoad } from "../client/use_call.ts";
import { useTicks } from "../client/use_ticks.ts";
import { Loading } from "../parts/loading.tsx";
import { RunMark } from "../parts/run_mark.tsx";
import { LIVE_STATES, StateBadge } from "../parts/state_badge.tsx";
import { hrefOf, place } from "../routes.ts";
import { comparedIds, compareHref, compareObstacle, MAX_COMPARED, MIN_COMPARED } from "./compare_address.ts";
import { CompareCharts } from "./compare_charts.tsx";
import { CompareChat } from "./compare_chat.tsx";
import { CompareConfig } from "./compare_config.tsx";
import { CompareEvaluations } from "./compare_evaluations.tsx";
import { CompareScenarios } from "./compare_scenarios.tsx";
import { changeRuns, type ComparedProps } from "./compare_view.ts";

/** How often runs that still train are asked for. */
const REFRESH_MS = 5000;

/** The most points of a line that the server gives. */
const POINTS = 200;

interface View {
  label: string;
  view: FunctionComponent<ComparedProps>;
}

/** The views of a comparison, by the second segment of their address. */
const VIEWS: Readonly<Record<string, View>> = {
  "": { label: "Charts", view: CompareCharts },
  evaluations: { label: "Evaluations", view: CompareEvaluations },
  scenarios: { label: "Scenarios", view: CompareScenarios },
  configuration: { label: "Configuration", view: CompareConfig },
  chat: { label: "Chat", view: CompareChat },
};

/** A choice of one more run. */
function AddRun({ ids }: { ids: readonly string[] }) {
  const loaded = useLoad(async (api, signal) => {
    const pages = await allPages((query) => api.call("GET /v1/runs", { query, signal }));
    return pages.flatMap(({ runs }) => runs);
  }, "runs");
  if (ids.length >= MAX_COMPARED) return <p class="quiet">{MAX_COMPARED} runs are the most.</p>;
  return (
    <label class="field">
      <span>Add a run</span>
      <select
        value=""
        onChange={({ currentTarget: { value } }) => value !== "" && changeRuns([...ids, value])}
      >
        <option value="">{loaded.value === null ? "loading …" : "choose one"}</option>
        {loaded.value?.filter(({ id }) => !ids.includes(id)).map(({ id, name, algorithm, state }) => (
          <option key={id} value={id}>{name} ({algorithm}, {state})</option>
        ))}
      </select>
    </label>
  );
}

function Runs({ runs, ids }: { runs: readonly Run[]; ids: readonly string[] }) {
  return (
    <ul class="compared" aria-label="compared runs">
      {runs.map(({ id, name, state, progress: { update } }, at) => (
        <li key={id}>
          <RunMark at={at} />
          <a href={hrefOf(["runs", id])}>{name}</a>
          <StateBadge state={state} />
          <span class="quiet">update {update}</span>
          {at === 0 ? <span class="tag">baseline</span> : (
            <button
              type="button"
              class="plain"
              onClick={() => changeRuns([id, ...ids.filter((other) => other !== id)])}
            >
              Make baseline <span class="unseen">: {name}</span>
            </button>
          )}
          {ids.length > MIN_COMPARED && (
            <button
              type="button"
              class="plain"
              aria-label={`Leave ${name} out`}
              onClick={() => changeRuns(ids.filter((other) => other !== id))}
            >
              ✕
            </button>
          )}
        </li>
      ))}
    </ul>
  );
}

/** The tabs and the view that the address names. */
function Views({ ids, ...props }: ComparedProps & { ids: readonly string[] }) {
  const { segments: [, name = ""], query } = place.value;
  const current = Object.hasOwn(VIEWS, name) ? name : "", View = VIEWS[current]!.view;
  return (
    <>
      <nav class="tabs" aria-label="views of this comparison">
        {Object.entries(VIEWS).map(([key, { label }]) => (
          <a
            key={key}
            href={compareHref(ids, key, { evaluation: query.get("evaluation") })}
            aria-current={key === current ? "page" : undefined}
          >
            {label}
          </a>
        ))}
      </nav>
      <View {...props} />
    </>
  );
}

/** Whether the server does not take the request; else it, or something between, has failed. */
function isRefused(error: unknown): boolean {
  return error instanceof ApiProblem && error.problem.status < 500;
}

function Compared({ ids }: { ids: readonly string[] }) {
  const evaluation = place.value.query.get("evaluation") ?? "last";
  const [is_live, setLive] = useState(true), ticks = useTicks(REFRESH_MS, is_live);
  const loaded = useLoad(
    async (api, signal): Promise<ComparedProps> => {
      const query = { runs: [...ids], evaluation, points: POINTS };
      const [compared, ...runs] = await Promise.all([
        api.call("GET /v1/compare", { query, signal }),
        ...ids.map((id) => api.call("GET /v1/runs/{id}", { params: { id }, signal })),
      ]);
      setLive(runs.some(({ state }) => LIVE_STATES.has(state)));
      return { compared, runs };
    },
    JSON.stringify(ids),
    { version: [evaluation, ticks] },
  );
  // What is there stays while the server is away; it is asked again with the next tick.
  const is_away = loaded.value !== null && loaded.error !== null && !isRefused(loaded.error);
  return (
    <Loading of={is_away ? { ...loaded, error: null } : loaded} what="the comparison">
      {(props) => (
        <>
          {is_away && <p class="quiet" role="status">The server is away; trying again …</p>}
          <Runs runs={props.runs} ids={ids} />
          <Views ids={ids} {...props} />
        </>
      )}
    </Loading>
  );
}

export function ComparePage() {
  const ids = comparedIds(place.value), obstacle = compareObstacle(ids.length);
  return (
    <>
      <header class="page-head">
        <h1>Compare</h1>
        <AddRun ids={ids} />
      </header>
      {obstacle === null ? <Compared ids={ids} /> : (
        <div class="empty">
          <p>{obstacle}.</p>
          <p>
            A comparison shows what differs in the configurations, the courses of all metrics in one chart,
            who won which scenario, and what the models answer to the same message.
          </p>
          <a class="button" href={hrefOf(["runs"])}>All runs</a>
        </div>
      )}
    </>
  );
}
