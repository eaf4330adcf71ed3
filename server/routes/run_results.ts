/** Results of runs. */

import { notBuilt, type Route } from "../route.ts";
import { SCENARIO_ROUTES } from "./run_scenarios.ts";

export const RUN_RESULT_ROUTES: readonly Route[] = [
  notBuilt({
    method: "GET",
    path: "/v1/runs/{id}/evaluations",
    operation: "list_evaluations",
    summary: "The evaluations of a run.",
  }),
  notBuilt({
    method: "GET",
    path: "/v1/runs/{id}/evaluations/{n}",
    operation: "get_evaluation",
    summary: "An evaluation with the outcome of every scenario.",
  }),
  ...SCENARIO_ROUTES,
  notBuilt({
    method: "GET",
    path: "/v1/runs/{id}/metrics",
    operation: "list_metrics",
    summary: "Samples of the metrics, as JSON or CSV.",
  }),
];
