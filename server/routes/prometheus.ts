/** Metrics of the server. */

import { z } from "zod";
import { RUN_STATES } from "../../runs/record/run.ts";
import { raw, type Route, route } from "../routing/route.ts";
import type { Services } from "../routing/services.ts";
import { streamEvents, streamRunEvents } from "./events.ts";
import { exposition, EXPOSITION_TYPE, type Family } from "../telemetry/exposition.ts";
import { processFamilies } from "../telemetry/process_families.ts";

/** The event streams, by whose events they send: one run's, or all runs'. */
const STREAMS = { run: streamRunEvents.path, all: streamEvents.path };

/** Runs, their slots and queue, and the readers of events. */
function runFamilies({ fleet, config, openRequests }: Services): Family[] {
  const states = (fleet?.list() ?? []).map(({ record }) => record.state);
  const number = (name: string, help: string, value: number): Family => ({
    ...{ name, help, type: "gauge", samples: [{ value }] },
  });
  return [
    {
      name: "svc_runs",
      type: "gauge",
      help: "Runs by state.",
      samples: RUN_STATES.map((state) => ({
        labels: { state },
        value: states.filter((other) => other === state).length,
      })),
    },
    number("svc_run_slots", "Runs that may train at once.", config.max_concurrent_runs),
    number("svc_run_queue_limit", "Runs that may wait for a slot.", config.max_queued_runs),
    {
      name: "svc_event_followers",
      type: "gauge",
      help: "Open event streams: of one run, and of all runs.",
      samples: Object.entries(STREAMS).map(([stream, path]) => ({
        labels: { stream },
        value: openRequests(path),
      })),
    },
  ];
}

const getMetrics = route({
  method: "GET",
  path: "/v1/metrics",
  operation: "get_prometheus_metrics",
  summary: "The metrics of the server as Prometheus text.",
  answers: {
    200: {
      description: "Requests, runs, jobs and the process, in Prometheus' text format 0.0.4.",
      content: { "text/plain": z.string() },
    },
  },
  async handler({ services }) {
    const families = [
      ...services.telemetry.flatMap((families) => families()),
      ...runFamilies(services),
      ...await processFamilies(services.started_ms),
    ];
    return { ...raw(200, "text/plain", exposition(families)), headers: { "content-type": EXPOSITION_TYPE } };
  },
});

export const PROMETHEUS_ROUTES: readonly Route[] = [getMetrics];
