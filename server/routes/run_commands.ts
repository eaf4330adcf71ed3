/** Commands to runs. */

import { notBuilt, type Route } from "../route.ts";

export const RUN_COMMAND_ROUTES: readonly Route[] = [
  notBuilt({
    method: "POST",
    path: "/v1/runs/{id}/pause",
    operation: "pause_run",
    summary: "Pauses at the next boundary, with a checkpoint.",
  }),
  notBuilt({
    method: "POST",
    path: "/v1/runs/{id}/resume",
    operation: "resume_run",
    summary: "Goes on from the newest checkpoint.",
  }),
  notBuilt({
    method: "POST",
    path: "/v1/runs/{id}/cancel",
    operation: "cancel_run",
    summary: "Ends a run, at the next boundary or now.",
  }),
  notBuilt({
    method: "POST",
    path: "/v1/runs/{id}/checkpoints",
    operation: "create_checkpoint",
    summary: "Writes a checkpoint at the next boundary.",
  }),
  notBuilt({
    method: "POST",
    path: "/v1/runs/{id}/evaluate",
    operation: "evaluate_run",
    summary: "Measures a run on its held-out data now.",
  }),
  notBuilt({
    method: "POST",
    path: "/v1/runs/{id}/generate",
    operation: "generate_with_run",
    summary: "Lets the policy of a run answer messages.",
  }),
];
