/** Event streams. */

import { z } from "zod";
import { hasEnded } from "../../runs/record/run.ts";
import type { ManagedRun } from "../../runs/fleet/managed_run.ts";
import { FLEET_EVENTS, RUN_EVENTS } from "../resources/event_schema.ts";
import { findManagedRun } from "../resources/fleet_problems.ts";
import { empty, raw, type Route, route } from "../routing/route.ts";
import type { FleetEvents } from "../store/fleet_events.ts";
import { eventStream, LAST_EVENT_ID, resumeId, type SentEvent, sinceQuery, streamStop } from "../http/sse.ts";

/** The durable events of a run after the one with a number, up to its last. */
async function* runEvents(run: ManagedRun, since: number, signal: AbortSignal): AsyncGenerator<SentEvent[]> {
  for await (const lines of run.feed.follow(since, signal)) {
    const { seq: last } = lines.at(-1)!;
    // Emptied, because a generator keeps its variables while it waits for the next event.
    yield lines.splice(0).map(({ seq, kind, text }) => ({ id: seq, event: kind, data: text }));
    if (isOver(run, last)) return;
  }
}

/** Whether an event is the last of a run that has ended. */
function isOver(run: ManagedRun, seq: number): boolean {
  return hasEnded(run.record.state) && seq === run.last_seq && run.has_last_event;
}

export const streamRunEvents = route({
  method: "GET",
  path: "/v1/runs/{id}/events",
  operation: "stream_run_events",
  summary: "The events of a run, as server-sent events.",
  query: z.object(sinceQuery),
  headers: LAST_EVENT_ID,
  find: findManagedRun,
  answers: {
    200: {
      description:
        "Events with their number as id, their kind as name and JSON as data; the last one is `end`.",
      content: { "text/event-stream": z.string() },
      events: RUN_EVENTS,
    },
    204: { description: "The run has ended, and the client has its last event." },
  },
  handler({ query: { since }, request, found, services }) {
    const from = resumeId({ since, headers: request.headers }, found.feed.last_seq);
    if (isOver(found, from)) return empty(204);
    const stop = streamStop(request.signal), { clock } = services;
    return raw(200, "text/event-stream", eventStream(runEvents(found, from, stop.signal), { clock, stop }));
  },
});

/** The events of all runs after the one with a number. If some of these are no longer stored, a `gap` comes first. */
async function* fleetEvents(
  events: FleetEvents,
  since: number,
  signal: AbortSignal,
): AsyncGenerator<SentEvent[]> {
  const first = events.first_seq;
  if (first !== null && since > 0 && since + 1 < first) {
    const data = { seq: first - 1, kind: "gap", missing: first - 1 - since };
    yield [{ id: first - 1, event: "gap", data: JSON.stringify(data) }];
  }
  for await (const piece of events.follow(since, signal)) {
    yield piece.map((event) => ({ id: event.seq, event: event.kind, data: JSON.stringify(event) }));
  }
}

export const streamEvents = route({
  method: "GET",
  path: "/v1/events",
  operation: "stream_events",
  summary: "Runs created, changed and deleted, as server-sent events.",
  query: z.object(sinceQuery),
  headers: LAST_EVENT_ID,
  answers: {
    200: {
      description:
        "Events `created`, `state` and `deleted` with ids of their own. The last 10,000 are kept: a client " +
        "whose id is older gets an event `gap` first.",
      content: { "text/event-stream": z.string() },
      events: FLEET_EVENTS,
    },
  },
  handler({ query: { since }, request, services: { fleet_events, clock } }) {
    const from = resumeId({ since, headers: request.headers }, fleet_events.last_seq);
    const stop = streamStop(request.signal), events = fleetEvents(fleet_events, from, stop.signal);
    return raw(200, "text/event-stream", eventStream(events, { clock, stop }));
  },
});

export const EVENT_ROUTES: readonly Route[] = [streamRunEvents, streamEvents];
