/** What happened in a run, newest first. */

import type { LiveRun, RunEvent } from "../client/live_run.ts";
import { bytesText, numberText, timeText } from "../parts/format.ts";

/** An event in one line. */
export function eventText(event: RunEvent): string {
  switch (event.kind) {
    case "state":
      return [event.state, event.detail, event.checkpoint && `from ${event.checkpoint}`].filter(Boolean)
        .join(" · ");
    case "evaluation": {
      const { pass_rate, loss } = event;
      if (pass_rate) {
        return `held-out pass rate ${numberText(100 * pass_rate.rate)} % after update ${event.update}`;
      }
      return `held-out loss ${numberText(loss)} after update ${event.update}`;
    }
    case "checkpoint":
      return `${event.name}, ${bytesText(event.size_bytes)}${event.best ? ", the best so far" : ""}`;
    case "artifact":
      return `${event.name}, ${bytesText(event.size_bytes)}`;
    case "log":
    case "warning":
      return event.message;
    case "command": {
      const given = Object.entries(event.arguments).map(([name, value]) => `${name} ${value}`);
      return [event.command, ...given].join(" · ");
    }
    case "end":
      return [event.state, event.detail].filter(Boolean).join(" · ");
    default:
      return `update ${event.update}`;
  }
}

function levelOf(event: RunEvent): string {
  if (event.kind === "warning") return "warning";
  if (event.kind === "log") return event.level;
  return event.kind === "state" && event.state === "failed" ? "error" : "info";
}

export function RunJournal({ live }: { live: LiveRun }) {
  const events = live.journal.value.toReversed();
  if (events.length === 0) return <p class="loading">Nothing has happened yet.</p>;
  return (
    <ol class="journal" aria-label="journal, newest first">
      {events.map((event) => (
        <li key={event.seq} class={`level-${levelOf(event)}`}>
          <time dateTime={event.time}>{timeText(event.time)}</time>
          <span class="kind">{event.kind}</span>
          <span>{eventText(event)}</span>
        </li>
      ))}
    </ol>
  );
}
