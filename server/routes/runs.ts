/** Records of runs. */

import { notBuilt, type Route } from "../route.ts";

export const RUN_ROUTES: readonly Route[] = [
  notBuilt({ method: "GET", path: "/v1/runs", operation: "list_runs", summary: "Runs, newest first." }),
  notBuilt({
    method: "POST",
    path: "/v1/runs",
    operation: "create_run",
    summary: "Starts a run from a recipe, a configuration or a fork.",
  }),
  notBuilt({ method: "GET", path: "/v1/runs/{id}", operation: "get_run", summary: "A run." }),
  notBuilt({
    method: "PATCH",
    path: "/v1/runs/{id}",
    operation: "update_run",
    summary: "Changes name, notes, tags or the learning rate.",
  }),
  notBuilt({
    method: "DELETE",
    path: "/v1/runs/{id}",
    operation: "delete_run",
    summary: "Deletes a run that has ended or is interrupted.",
  }),
];
