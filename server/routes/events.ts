/** Event streams. */

import { notBuilt, type Route } from "../route.ts";

export const EVENT_ROUTES: readonly Route[] = [
  notBuilt({
    method: "GET",
    path: "/v1/runs/{id}/events",
    operation: "stream_run_events",
    summary: "The events of a run, as server-sent events.",
  }),
  notBuilt({
    method: "GET",
    path: "/v1/events",
    operation: "stream_events",
    summary: "Runs created, changed and deleted, as server-sent events.",
  }),
];
