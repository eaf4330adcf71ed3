/** What happened in a run, newest first. */

import { JOURNAL_KINDS, type LiveRun, type RunEvent } from "../client/live_run.ts";
import { bytesText, exactTimeText, numberText, secondText } from "../parts/format.ts";
import { place, replacePlace } from "../routes.ts";

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

/** Events of a kind and with a text, where they are asked for. */
export function filtered(
  events: readonly RunEvent[],
  { kind, text }: { kind: string; text: string },
): RunEvent[] {
  const wanted = text.toLowerCase();
  return events.filter((event) =>
    (kind === "" || event.kind === kind) && eventText(event).toLowerCase().includes(wanted)
  );
}

export function RunJournal({ live }: { live: LiveRun }) {
  const { segments, query } = place.value, kind = query.get("kind") ?? "", text = query.get("text") ?? "";
  const all = live.journal.value, events = filtered(all, { kind, text }).reverse();
  const change = (name: string, value: string) =>
    replacePlace(segments, { ...Object.fromEntries(query), [name]: value });
  return (
    <>
      <form class="filters" role="search" onSubmit={(event) => event.preventDefault()}>
        <label class="field">
          <span>Text</span>
          <input
            type="search"
            value={text}
            onInput={({ currentTarget }) => change("text", currentTarget.value)}
          />
        </label>
        <label class="field">
          <span>Kind</span>
          <select value={kind} onChange={({ currentTarget }) => change("kind", currentTarget.value)}>
            <option value="">any</option>
            {[...JOURNAL_KINDS].map((kind) => <option key={kind}>{kind}</option>)}
          </select>
        </label>
      </form>
      {events.length === 0 && (
        <p class="quiet">
          {all.length === 0 ? "Nothing has happened yet." : "No event passes these filters."}
        </p>
      )}
      <ol class="journal" aria-label="journal, newest first">
        {events.map((event) => (
          <li key={event.seq} class={`level-${levelOf(event)}`}>
            <time dateTime={event.time} title={exactTimeText(event.time)}>{secondText(event.time)}</time>
            <span class="kind">{event.kind}</span>
            <span>{eventText(event)}</span>
          </li>
        ))}
      </ol>
    </>
  );
}
