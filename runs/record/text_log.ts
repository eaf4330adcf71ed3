/** `log.txt`: a run's events for people, one line each. */

import { indented, printable } from "../../core/text.ts";
import type { EvaluationEvent, RunEvent, UpdateEvent } from "./event.ts";
import { failedText, formatRate, rowsText, updateTroubles, warningText } from "./event_text.ts";

/** The line of an event, without a line end; null for events with only numbers. */
export function logLine(event: RunEvent): string | null {
  const text = textOf(event);
  return text === null ? null : `${event.time} ${printable(indented(text))}`;
}

function textOf(event: RunEvent): string | null {
  switch (event.kind) {
    case "state":
      return `state ${event.state}${event.checkpoint ? ` from ${event.checkpoint}` : ""}` +
        (event.detail ? `: ${event.detail}` : "");
    case "log":
      return `${event.level} ${event.message}`;
    case "warning":
      return warningText(event);
    case "command":
      return `command ${event.command} ${JSON.stringify(event.arguments)}`;
    case "checkpoint":
      return `checkpoint ${event.name}, ${event.size_bytes} bytes`;
    case "artifact":
      return `artifact ${event.name} (update ${event.update}): ${event.path}, ${event.size_bytes} bytes`;
    case "update":
      return updateText(event);
    case "evaluation":
      return evaluationText(event);
    case "end":
      return `end ${event.state} after update ${event.update}` +
        (event.adapter === null ? "" : `, adapter of update ${event.adapter_update}: ${event.adapter}`);
    case "metrics":
      return null;
  }
}

function updateText(event: UpdateEvent): string {
  const { update, updates, reward_mean, loss, tokens_per_second } = event;
  const values = [
    ...valued("reward", reward_mean),
    ...valued("loss", loss),
    `${Math.round(tokens_per_second)} tokens/s`,
    ...updateTroubles(event),
  ];
  return `update ${update}${updates === null ? "" : ` of ${updates}`}: ${values.join(", ")}`;
}

function evaluationText(event: EvaluationEvent): string {
  const { pass_rate, reward_mean, loss, perplexity, rows } = event;
  const values = [
    ...[pass_rate ? `pass rate ${formatRate(pass_rate)}` : []].flat(),
    ...valued("reward", reward_mean),
    ...valued("loss", loss),
    ...valued("perplexity", perplexity),
    ...Object.entries(event.values ?? {}).flatMap(([name, value]) => valued(name, value)),
    ...[rows ? rowsText(rows) : []].flat(),
    ...[failedText(event) ?? []].flat(),
  ];
  return `evaluation ${event.n} after update ${event.update}: ${values.join(", ")}`;
}

function valued(name: string, value: number | null): string[] {
  return value === null ? [] : [`${name} ${short(value)}`];
}

/** People compare four digits; the events have all of them. */
function short(value: number): string {
  return String(Number(value.toPrecision(4)));
}

/** Appends events to a text log. It is only for people, so a failed write does not fail the run. */
export function appendTextLog(path: string, events: readonly RunEvent[]): void {
  const text = events.map(logLine).filter((line) => line !== null).map((line) => line + "\n").join("");
  try {
    Deno.writeTextFileSync(path, text, { append: true, create: true });
  } catch { /* the events themselves are on the disk */ }
}
