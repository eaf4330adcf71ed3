/** Prints a run's events for a person. */

import type { Clock } from "../core/clock.ts";
import { formatBytes, indented, inline, printable } from "../core/text.ts";
import type { Activity } from "../runs/record/activity.ts";
import type {
  EndEvaluation,
  EndEvent,
  EvaluationEvent,
  EvaluationPoint,
  RunEvent,
  UpdateEvent,
} from "../runs/record/event.ts";
import {
  counted,
  failedText,
  formatRate,
  rowsText,
  updateTroubles,
  warningText,
} from "../runs/record/event_text.ts";
import { type Objective, OBJECTIVES } from "../runs/record/objective.ts";
import { MIN_PAIRS, type PairedDifference } from "../runs/record/paired_comparison.ts";
import { type Style, styled, type Terminal } from "./terminal.ts";

/** The interval at which the status line of an interactive terminal updates its time. */
export const TICK_MS = 1000;

/** `1:05`, `1:00:05`. */
export function formatDuration(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  const parts = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  if (parts[0] === 0) parts.shift();
  return parts.map((part, i) => i === 0 ? String(part) : String(part).padStart(2, "0")).join(":");
}

/** Progress inside an update or an evaluation: `update 2/6 · rollouts 12/32`, `held-out 40/200`. */
function activityText(activity: Activity): string {
  const count = "done" in activity ? ` ${activity.done}/${activity.total}` : "";
  if (activity.phase === "evaluation") return `held-out${count}`;
  if (activity.phase === "collection") return `attempts${count}, ${counted(activity.kept, "row")} kept`;
  return `${updateName(activity)} · ${activity.phase}${count}`;
}

function updateName({ update, updates }: Pick<UpdateEvent, "update" | "updates">): string {
  return `update ${update}${updates === null ? "" : `/${updates}`}`;
}

/** The line of an update; problems come last. */
function updateText(event: UpdateEvent): string {
  return [updateName(event), updateFacts(event), ...updateTroubles(event)].join(", ");
}

function updateFacts(event: UpdateEvent): string {
  const parts: string[] = [];
  if (event.reward_mean !== null) parts.push(`reward ${event.reward_mean.toFixed(3)}`);
  if (event.reward_mean === null && event.loss !== null) parts.push(`loss ${event.loss.toFixed(4)}`);
  parts.push(`${Math.round(event.tokens_per_second)} tokens/s`);
  if (event.eta_seconds !== null) parts.push(`ETA ${formatDuration(event.eta_seconds)}`);
  return parts.join(", ");
}

function evaluationText(event: EvaluationEvent): string {
  const place = `held-out after update ${event.update}: `;
  if (event.pass_rate) {
    const rate = `pass rate ${formatRate(event.pass_rate)}`, failed = failedText(event);
    return place + rate + (failed === null ? "" : `, ${failed}`);
  }
  const loss = event.loss === null ? "no loss" : `loss ${event.loss.toFixed(4)}`;
  const perplexity = event.perplexity === null ? "" : `, perplexity ${event.perplexity.toFixed(2)}`;
  return place + loss + perplexity + valuesText(event.values) +
    (event.rows === null ? "" : ` (${rowsText(event.rows)})`);
}

/** Other values of an evaluation: `, margin 0.1234, accuracy 0.7500`. */
const valuesText = (values: Record<string, number> = {}) =>
  Object.entries(values).map(([name, value]) => `, ${shortName(name)} ${value.toFixed(4)}`).join("");

/** A metric's name without its prefix. */
export const shortName = (name: string) => name.slice(name.indexOf("/") + 1);

/** A difference of rates in points: `+16.7`, `−5.0`. */
export const points = (share: number) => `${share < 0 ? "−" : "+"}${Math.abs(share * 100).toFixed(1)}`;

function differenceText({ difference, low, high, n }: PairedDifference, metric: Objective): string {
  const { is_rate, example } = OBJECTIVES[metric];
  const show = (value: number) => is_rate ? points(value) : value.toFixed(4);
  const interval = low === null || high === null
    ? `no interval: ${n < MIN_PAIRS ? `fewer than ${MIN_PAIRS}` : "all differ alike"}`
    : `95 % interval ${show(low)} to ${show(high)}`;
  return `${show(difference)}${is_rate ? " points" : ""} (${interval}, paired over ${counted(n, example)})`;
}

function endEvaluationText({ metric, before, best, after, difference }: EndEvaluation): string[] {
  const shown = ({ pass_rate, value }: EvaluationPoint) =>
    `${OBJECTIVES[metric].label} ${pass_rate ? formatRate(pass_rate) : value.toFixed(4)}`;
  const lines = [`held-out before: ${shown(before)}`, `held-out after:  ${shown(after)}`];
  if (difference) lines.push(`difference:      ${differenceText(difference, metric)}`);
  if (best.update !== after.update) {
    lines.push(`best evaluated:  ${shown(best)}, after update ${best.update}`);
  }
  return lines;
}

function adapterText({ adapter, adapter_update, other_adapter }: EndEvent): string[] {
  const lines = [`adapter: ${adapter} (update ${adapter_update})`];
  if (other_adapter) {
    const { which, path, update } = other_adapter;
    lines.push(
      `${which} adapter: ${path} (${which === "best" ? "best evaluated " : "last "}update, ${update})`,
    );
  }
  return lines;
}

function endText(event: EndEvent): string[] {
  const lines: string[] = [];
  if (event.plot) lines.push("", event.plot);
  if (event.evaluation) lines.push("", ...endEvaluationText(event.evaluation));
  if (event.adapter) lines.push("", ...adapterText(event).map(inline));
  // The reason of a failure goes to standard error.
  const reason = event.state === "failed" ? event.reason : event.detail;
  lines.push(indented(`run ${event.state} after update ${event.update}${reason ? `: ${reason}` : ""}`));
  return lines;
}

/** Whether an event ends this activity. */
function isOver(activity: Activity, event: RunEvent): boolean {
  if (activity.phase === "evaluation") return event.kind === "evaluation";
  // No run collects.
  if (activity.phase === "collection") return false;
  if (activity.phase === "checkpoint") return event.kind === "checkpoint";
  return event.kind === "update" && event.update === activity.update;
}

/** Prints a run. On an interactive terminal the last line is a status line, which is overwritten. */
export class ProgressPrinter {
  #state = "";
  #activity: Activity | null = null;
  #last_update: UpdateEvent | null = null;
  /** When the state or the kind of activity last changed. */
  #since_ms: number;
  #has_status_line = false;
  #is_closed = false;

  constructor(readonly terminal: Terminal, readonly clock: Clock) {
    this.#since_ms = clock.monotonic_ms();
  }

  handle(event: RunEvent): void {
    if (this.#activity && isOver(this.#activity, event)) this.#activity = null;
    switch (event.kind) {
      case "state":
        this.#state = event.checkpoint ? `${event.state} from ${event.checkpoint}` : event.state;
        return this.#restart();
      case "update":
        this.#last_update = event;
        if (!this.terminal.interactive) return this.#line(updateText(event));
        this.#restart();
        // The status line is overwritten, so problems need a line of their own.
        if (updateTroubles(event).length > 0) this.#line(updateText(event));
        return;
      case "evaluation":
        return this.#line(evaluationText(event));
      case "checkpoint":
        return this.#line(`checkpoint ${event.name} (${formatBytes(event.size_bytes)})`);
      case "warning":
        return this.#line(indented(warningText(event)), "yellow");
      case "log":
        if (event.level === "debug") return;
        return this.#line(
          indented(event.level === "info" ? event.message : `${event.level}: ${event.message}`),
        );
      case "end":
        this.close();
        for (const line of endText(event)) this.#line(line);
        return;
      case "metrics":
      case "artifact":
      case "command":
        return;
    }
  }

  /** Shows an activity, on an interactive terminal only. */
  show(activity: Activity): void {
    const before = this.#activity;
    this.#activity = activity;
    if (before?.phase !== activity.phase) this.#restart();
    else this.#draw();
  }

  /** Updates the time; call it every {@link TICK_MS}. */
  tick(): void {
    this.#draw();
  }

  /** Prints a line on standard error. */
  note(text: string): void {
    this.#erase();
    this.terminal.error(printable(text));
    this.#draw();
  }

  /** Removes the status line. */
  close(): void {
    this.#erase();
    this.#is_closed = true;
  }

  #restart(): void {
    this.#since_ms = this.clock.monotonic_ms();
    this.#draw();
  }

  #line(text: string, style?: Style): void {
    const shown = printable(text);
    this.#erase();
    this.terminal.line(style ? styled(this.terminal, style, shown) : shown);
    this.#draw();
  }

  /** @param elapsed Absent when it does not fit. */
  #status(elapsed: string | null): string {
    const activity = this.#activity && activityText(this.#activity), last = this.#last_update;
    const facts = last && (activity ? updateFacts(last) : `${updateName(last)}, ${updateFacts(last)}`);
    const state = this.#state.startsWith("running") && (activity || last) ? "" : this.#state;
    const doing = [state, activity].filter(Boolean).join(" · ");
    if (elapsed === null) return [doing, facts].filter(Boolean).join(" · ");
    if (doing === "") return facts ? `${facts} · ${elapsed} ago` : "";
    return [`${doing} for ${elapsed}`, facts].filter(Boolean).join(" · ");
  }

  #draw(): void {
    if (!this.terminal.interactive || this.#is_closed) return;
    const width = this.terminal.columns - 1;
    const seconds = (this.clock.monotonic_ms() - this.#since_ms) / 1000;
    const whole = inline(this.#status(formatDuration(seconds)));
    // The remaining time comes last, because it matters more.
    const text = whole.length <= width ? whole : inline(this.#status(null)).slice(0, width);
    if (text === "") return;
    this.#erase();
    this.terminal.write(styled(this.terminal, "dim", text));
    this.#has_status_line = true;
  }

  #erase(): void {
    if (this.#has_status_line) this.terminal.write("\r\x1b[2K");
    this.#has_status_line = false;
  }
}
