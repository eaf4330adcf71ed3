/** Publishes the events of a fleet's runs. Each event is stored exactly once, even if the server is killed. */

import { errorRecord } from "../../core/errors.ts";
import type { Fleet } from "../../runs/fleet/fleet.ts";
import type { ManagedRun } from "../../runs/fleet/managed_run.ts";
import type { FleetChange } from "../../runs/fleet/run_lifecycle.ts";
import type { RunEvent } from "../../runs/record/event.ts";
import { readEvents } from "../../runs/record/event_log.ts";
import { CREATED_SEQ, type FleetEvents } from "./fleet_events.ts";
import type { RunIndex } from "./run_index.ts";

interface FollowFleetOptions {
  fleet: Fleet;
  /** Its changes, of which this is the only reader. */
  changes: AsyncIterable<FleetChange>;
  events: FleetEvents;
  index: RunIndex;
  log: (line: Record<string, unknown>) => void;
}

/**
 * Publishes the changes in the logs of runs that are not published yet, then every change until the fleet is closed.
 * Changes that could not be stored, for example on a full disk, are read from the logs again before the next change. At
 * the same time deleted runs are removed from the index. That takes long for a large run, and no event waits for it.
 */
export async function followFleet(options: FollowFleetOptions): Promise<void> {
  const { fleet, changes, events, index, log } = options, forgetting = new Set<Promise<unknown>>();
  const attempt = async (doing: string, work: () => void | Promise<void>): Promise<boolean> => {
    try {
      await work();
      return true;
    } catch (error) {
      log({ level: "error", message: `Cannot ${doing}: ${errorRecord(error).message}` });
      return false;
    }
  };
  const store = (work: () => void | Promise<void>) => attempt("store the events of runs", work);
  const forget = (work: () => Promise<void>) => {
    const done = attempt("remove runs from the index", work).finally(() => forgetting.delete(done));
    forgetting.add(done);
  };
  forget(() => index.keepOnly((run) => fleet.hasFolder(run)));
  let is_complete = await store(() => catchUp(options));
  for await (const change of changes) {
    is_complete ||= await store(() => catchUp(options));
    is_complete &&= await store(() => events.add(change));
    if (change.kind === "deleted") forget(() => index.forget(change.run));
  }
  events.close();
  await index.stop();
  await Promise.all(forgetting);
}

/** Publishes the changes in the logs that are not published yet. A later change with the same events adds none. */
async function catchUp({ fleet, events }: FollowFleetOptions): Promise<void> {
  const runs = fleet.list().reverse(), published = new Map(events.published().map((row) => [row.run, row]));
  for (const { run, state } of published.values()) {
    if (!fleet.hasFolder(run)) events.add({ kind: "deleted", run, state });
  }
  for (const run of runs) {
    if (!published.has(run.id)) events.add({ kind: "created", run: run.id, state: "queued" });
    const since = published.get(run.id)?.published_seq ?? CREATED_SEQ;
    if (run.last_state_seq <= since) continue;
    events.add({ kind: "events", run: run.id, events: await statesAfter(run, since) });
  }
}

/** The changes of a run's state after an event, up to the last one that is on disk. */
async function statesAfter(run: ManagedRun, since: number): Promise<RunEvent[]> {
  const { last_seq } = run, states: RunEvent[] = [];
  for await (const event of readEvents(run.eventsPath, { since })) {
    if (event.seq > last_seq) break;
    if (event.kind === "state") states.push(event);
  }
  return states;
}
