/** Many followers of one run: whether each gets every event, and what they cost. */

import { shownEvents } from "../../tests/shown_events.ts";
import { memoryOf, type TrainingServer } from "./training_server.ts";

export interface FollowersResult {
  followers: number;
  /** Events of the run while all followed. */
  events: number;
  /** Followers that missed an event, or got one twice. */
  wrong: number;
  /** Milliseconds from the first follower that had an event to the last one, of the slowest event. */
  spread_ms: number;
  /** Bytes of the server per follower. */
  bytes_each: number;
}

/** Follows the run's next events. */
export async function measureFollowers(
  { url, run, server }: TrainingServer,
  { followers, events }: { followers: number; events: number },
): Promise<FollowersResult> {
  const path = `${url}/v1/runs/${run}`, before = await memoryOf(server.child.pid);
  const since = await newest(path);
  const seen: { first: number; last: number; count: number }[] = [];
  let wrong = 0;
  const follow = async () => {
    let expected = since;
    for await (const { id } of shownEvents(`${path}/events`, since)) {
      const now = performance.now(), event = seen[id] ??= { first: now, last: now, count: 0 };
      event.last = now;
      event.count++;
      if (id !== ++expected) wrong++;
      if (expected === since + events) return;
    }
  };
  await Promise.all(Array.from({ length: followers }, follow));
  const after = await memoryOf(server.child.pid);
  const spread_ms = Math.max(...seen.filter(Boolean).map(({ first, last }) => last - first));
  return {
    followers,
    events,
    wrong,
    spread_ms,
    bytes_each: Math.max(0, after.peak - before.now) / followers,
  };
}

/** The number of the newest event in the log. */
async function newest(run_url: string): Promise<number> {
  const log = await (await fetch(`${run_url}/artifacts/events`)).text();
  return JSON.parse(log.trimEnd().split("\n").at(-1)!).seq;
}
