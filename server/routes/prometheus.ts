/** Metrics of the server. */

import { notBuilt, type Route } from "../routing/route.ts";

export const PROMETHEUS_ROUTES: readonly Route[] = [
  notBuilt({
    method: "GET",
    path: "/v1/metrics",
    operation: "get_prometheus_metrics",
    summary: "The metrics of the server as Prometheus text.",
  }),
];
