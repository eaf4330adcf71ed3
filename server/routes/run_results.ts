/** Results of runs. */

import { notBuilt, type Route } from "../route.ts";

export const RUN_RESULT_ROUTES: readonly Route[] = [
  notBuilt({
    method: "GET",
    path: "/v1/runs/{id}/scenarios",
    operation: "list_run_scenarios",
    summary: "The scenarios of a run with their pass rate by update.",
  }),
  notBuilt({
    method: "GET",
    path: "/v1/runs/{id}/scenarios/{scenario}",
    operation: "get_run_scenario",
    summary: "A scenario with its groups over updates.",
  }),
];
