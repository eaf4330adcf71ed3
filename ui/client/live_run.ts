/** One run as it goes on: what it is, its metrics, its journal and its health. */

import { signal } from "@preact/signals";
import type { Events, Run, RunHealth } from "../../api/types.ts";
import type { Api } from "./api.ts";
import { follow, waitFor } from "./event_stream.ts";

type RunEvents = Events["stream_run_events"];
/** An event of a run's log. */
export type RunEvent = RunEvents[keyof RunEvents];

/** The values of a metric by optimiser step, oldest first. A value that is not finite is null and has its place. */
export interface Series {
  updates: number[];
  steps: number[];
  values: (number | null)[];
}

/** Events of the journal that are kept in memory; older ones are in the run's artefact `events`. */
const JOURNAL_LENGTH = 1000;
/** Kinds that people read one by one. */
const JOURNAL_KINDS: ReadonlySet<RunEvent["kind"]> = new Set([
  "state",
  "evaluation",
  "checkpoint",
  "artifact",
  "log",
  "warning",
  "command",
  "end",
]);
/** Kinds after which the run itself is asked for again. */
const CHANGING_KINDS: ReadonlySet<RunEvent["kind"]> = new Set(["state", "update", "end"]);

/** How often the files of a viewed run are looked at. */
const VIEW_MS = 5000;

/** Whether the server is in view mode: it has the trajectories of a run, and neither its events nor its plan. */
export function isViewed({ plan }: Run): boolean {
  return plan === null;
}

/** Collects a run's events. Signals change once for many events: {@link flush}. */
export class LiveRun {
  readonly run = signal<Run | null>(null);
  readonly health = signal<RunHealth | null>(null);
  /** Each metric by name. The arrays grow in place; the signal changes with each growth. */
  readonly series = signal<ReadonlyMap<string, Series>>(new Map());
  /** The newest events last. */
  readonly journal = signal<readonly RunEvent[]>([]);
  readonly is_live = signal(true);
  readonly error = signal<unknown>(null);
  readonly #api: Api;
  readonly #id: string;
  readonly #series = new Map<string, Series>();
  #journal: RunEvent[] = [];
  #is_changed = false;

  constructor(api: Api, id: string) {
    this.#api = api;
    this.#id = id;
  }

  /** Follows the run until the signal. @param onFrame Calls back before the next picture is drawn. */
  async follow(
    abort: AbortSignal,
    onFrame: (draw: () => void) => void = (draw) => requestAnimationFrame(draw),
  ): Promise<void> {
    let is_waiting = false, is_stale = false;
    const draw = () => {
      is_waiting = false;
      this.flush();
      if (is_stale) is_stale = (this.refresh(abort), false);
    };
    try {
      await this.refresh(abort);
      if (isViewed(this.run.value!)) return await this.#loadMetrics(abort);
      await follow({
        signal: abort,
        open: (last_id, signal) =>
          this.#api.open(`./v1/runs/${encodeURIComponent(this.#id)}/events`, {
            signal,
            headers: last_id === null ? {} : { "last-event-id": last_id },
          }),
        onLive: (is_live) => this.is_live.value = is_live,
        onEvent: ({ data }) => {
          const event: RunEvent = JSON.parse(data);
          this.take(event);
          is_stale ||= CHANGING_KINDS.has(event.kind);
          if (!is_waiting) is_waiting = (onFrame(draw), true);
        },
      });
    } catch (error) {
      if (!abort.aborted) this.error.value = error;
    }
  }

  /** Adds an event. */
  take(event: RunEvent): void {
    this.#is_changed = true;
    if (event.kind === "metrics") this.#takeMetrics(event);
    if (!JOURNAL_KINDS.has(event.kind)) return;
    this.#journal.push(event);
    if (this.#journal.length > 2 * JOURNAL_LENGTH) this.#journal = this.#journal.slice(-JOURNAL_LENGTH);
  }

  /** Shows what was taken since the last time. */
  flush(): void {
    if (!this.#is_changed) return;
    this.#is_changed = false;
    this.series.value = new Map(this.#series);
    this.journal.value = this.#journal.slice(-JOURNAL_LENGTH);
  }

  /** Asks for the run and its health again. */
  async refresh(signal: AbortSignal): Promise<void> {
    const params = { id: this.#id };
    this.run.value = await this.#api.call("GET /v1/runs/{id}", { params, signal });
    this.health.value = await this.#api.call("GET /v1/runs/{id}/health", { params, signal });
  }

  /** Takes the metrics of a run without a stream of events, and looks for new ones until the signal. */
  async #loadMetrics(signal: AbortSignal): Promise<void> {
    for (let since = 0; !signal.aborted; await waitFor(VIEW_MS, signal)) {
      for (let is_more = true; is_more;) {
        const query = { since };
        const answer = await this.#api.call("GET /v1/runs/{id}/metrics", {
          params: { id: this.#id },
          query,
          signal,
        });
        if (!("samples" in answer)) return;
        for (const { update, step, name, value } of answer.samples) {
          this.#takeMetrics({ update, step, values: { [name]: value } });
        }
        is_more = answer.next_since > since && answer.samples.length > 0;
        this.#is_changed ||= is_more;
        since = answer.next_since;
      }
      this.flush();
      await this.refresh(signal);
    }
  }

  #takeMetrics({ update, step, values }: Pick<RunEvents["metrics"], "update" | "step" | "values">): void {
    for (const [name, value] of Object.entries(values)) {
      let series = this.#series.get(name);
      if (!series) this.#series.set(name, series = { updates: [], steps: [], values: [] });
      // After a resume steps are repeated; the later one counts.
      while (series.steps.length > 0 && series.steps.at(-1)! >= step) {
        series.updates.pop();
        series.steps.pop();
        series.values.pop();
      }
      series.updates.push(update);
      series.steps.push(step);
      series.values.push(value);
    }
  }
}
