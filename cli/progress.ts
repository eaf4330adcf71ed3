/** A run's events as a person reads them. */

import type { Clock } from "../core/clock.ts";
import { indented, inline, printable } from "../core/text.ts";
import type {
  EndEvaluation,
  EndEvent,
  EvaluationEvent,
  EvaluationPoint,
  Rate,
  RunEvent,
  UpdateEvent,
} from "../runs/event.ts";
import { failedText, rowsText, updateTroubles } from "../runs/event_text.ts";
import { type Style, styled, type Terminal } from "./terminal.ts";

/** `1:05`, `1:00:05`. */
export function formatDuration(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  const parts = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  if (parts[0] === 0) parts.shift();
  return parts.map((part, i) => i === 0 ? String(part) : String(part).padStart(2, "0")).join(":");
}

/** `1.5 MiB`. */
export function formatBytes(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const unit = Math.min(units.length - 1, Math.max(0, Math.floor(Math.log2(Math.max(1, bytes)) / 10)));
  return unit === 0 ? `${bytes} B` : `${(bytes / 1024 ** unit).toFixed(1)} ${units[unit]}`;
}

/** `45.3 % (95 % interval 40.1 to 50.5; n = 32 scenarios, 64 attempts)`. */
export function formatRate({ rate, low, high, n, attempts }: Rate): string {
  const percent = (share: number) => (share * 100).toFixed(1);
  const tried = attempts === n ? "" : `, ${attempts} attempts`;
  return `${percent(rate)} % (95 % interval ${percent(low)} to ${percent(high)}; n = ${n} scenarios${tried})`;
}

function updateText(event: UpdateEvent): string {
  const parts = [`update ${event.update}${event.updates === null ? "" : `/${event.updates}`}`];
  if (event.reward_mean !== null) parts.push(`reward ${event.reward_mean.toFixed(3)}`);
  if (event.reward_mean === null && event.loss !== null) parts.push(`loss ${event.loss.toFixed(4)}`);
  parts.push(...updateTroubles(event));
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
  return place + loss + perplexity + (event.rows === null ? "" : ` (${rowsText(event.rows)})`);
}

const points = (share: number) => `${share < 0 ? "−" : "+"}${Math.abs(share * 100).toFixed(1)}`;

function endEvaluationText({ before, best, after, difference }: EndEvaluation): string[] {
  const shown = ({ pass_rate, value }: EvaluationPoint) =>
    pass_rate ? `pass rate ${formatRate(pass_rate)}` : `loss ${value.toFixed(4)}`;
  const lines = [`held-out before: ${shown(before)}`, `held-out after:  ${shown(after)}`];
  if (difference) {
    const { low, high, n } = difference, is_rate = after.pass_rate !== null;
    const show = (value: number) => is_rate ? points(value) : value.toFixed(4);
    lines.push(
      `difference:      ${show(difference.difference)}${is_rate ? " points" : ""} (95 % interval ${
        show(low)
      } to ` +
        `${show(high)}, paired over ${n} ${is_rate ? "scenarios" : "rows"})`,
    );
  }
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
  const reason = event.detail ?? event.reason;
  lines.push(indented(`run ${event.state} after update ${event.update}${reason ? `: ${reason}` : ""}`));
  return lines;
}

/** Prints a run. Between updates of an interactive terminal the last line is written over. */
export class ProgressPrinter {
  /** What the last line shows before the time that is passing. */
  #status = "";
  #since_ms: number;
  #has_status_line = false;

  constructor(readonly terminal: Terminal, readonly clock: Clock) {
    this.#since_ms = clock.monotonic_ms();
  }

  handle(event: RunEvent): void {
    switch (event.kind) {
      case "state":
        return this.#setStatus(event.checkpoint ? `${event.state} from ${event.checkpoint}` : event.state);
      case "update":
        return this.terminal.interactive ? this.#setStatus(updateText(event)) : this.#line(updateText(event));
      case "evaluation":
        return this.#line(evaluationText(event));
      case "checkpoint":
        return this.#line(`checkpoint ${event.name} (${formatBytes(event.size_bytes)})`);
      case "warning":
        return this.#line(indented(`warning: ${event.message}`), "yellow");
      case "log":
        if (event.level === "debug") return;
        return this.#line(
          indented(event.level === "info" ? event.message : `${event.level}: ${event.message}`),
        );
      case "end":
        for (const line of endText(event)) this.#line(line);
        return;
      case "metrics":
      case "artifact":
      case "command":
        return;
    }
  }

  /** Shows that time passes; call it about once a second. */
  tick(): void {
    if (this.terminal.interactive && this.#status) this.#draw();
  }

  /** Takes the status line away. */
  close(): void {
    this.#erase();
    this.#status = "";
  }

  #setStatus(status: string): void {
    this.#status = status;
    this.#since_ms = this.clock.monotonic_ms();
    if (this.terminal.interactive) this.#draw();
  }

  #line(text: string, style?: Style): void {
    const shown = printable(text);
    this.#erase();
    this.terminal.line(style ? styled(this.terminal, style, shown) : shown);
    if (this.terminal.interactive && this.#status) this.#draw();
  }

  #draw(): void {
    const seconds = (this.clock.monotonic_ms() - this.#since_ms) / 1000;
    const text = inline(`${this.#status} · ${formatDuration(seconds)}`);
    this.#erase();
    this.terminal.write(styled(this.terminal, "dim", text.slice(0, this.terminal.columns - 1)));
    this.#has_status_line = true;
  }

  #erase(): void {
    if (this.#has_status_line) this.terminal.write("\r\x1b[2K");
    this.#has_status_line = false;
  }
}
