/** One run as it goes on: what it is, its metrics, its journal and its health. */

import { batch, signal } from "@preact/signals";
import type { Events, Run, RunHealth } from "../../api/types.ts";
import type { Api } from "./api.ts";
import { follow, waitFor } from "./event_stream.ts";
import { type Mark, MarkList } from "./marks.ts";
import { Newest } from "./newest.ts";
import { PROGRESS_MS } from "./run_list.ts";
import { BUCKETS, type Series, SeriesSet } from "./series.ts";

type RunEvents = Events["stream_run_events"];
/** An event of a run's log. */
export type RunEvent = RunEvents[keyof RunEvents];

/** Events of the journal that are kept in memory; older ones are in the run's artefact `events`. */
const JOURNAL_LENGTH = 1000;
/** Events before those of the newest metrics from which on the stream is read, for the journal. */
const JOURNAL_EVENTS = 2000;
/** Kinds that people read one by one. */
export const JOURNAL_KINDS: ReadonlySet<RunEvent["kind"]> = new Set([
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
  /** Whether the metrics up to now are there. */
  readonly has_metrics = signal(false);
  /** Each metric by name. The series grow in place; the signal changes with each growth. */
  readonly series = signal<ReadonlyMap<string, Series>>(new Map());
  /** Changes when points are no longer those of before, which further ones do not change. */
  readonly revision = signal(0);
  /** The newest events last. */
  readonly journal = signal<readonly RunEvent[]>([]);
  /** What happened beside the updates, oldest first. */
  readonly marks = signal<readonly Mark[]>([]);
  readonly is_live = signal(true);
  readonly error = signal<unknown>(null);
  readonly #api: Api;
  readonly #id: string;
  readonly #series = new SeriesSet();
  readonly #marks = new MarkList();
  readonly #newest = new Newest();
  #journal: RunEvent[] = [];
  #is_changed = false;
  #is_loading = false;
  /** After the last event the stream ends, and the server is not away. */
  #has_ended = false;

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
      if (is_stale) {
        is_stale = false;
        // The server may be away; it is asked again with the next event.
        this.refresh(abort).catch(() => is_stale = true);
      }
      if (this.#series.is_stale) this.#reloadMetrics(abort);
    };
    // What a run does between two events is in no event.
    const timer = setInterval(() => {
      if (!document.hidden && this.run.value?.progress.phase) this.refresh(abort).catch(() => {});
    }, PROGRESS_MS);
    try {
      await this.refresh(abort);
      await this.#loadMetrics(abort);
      if (isViewed(this.run.value!)) return await this.#followFiles(abort);
      const first = this.#series.since - JOURNAL_EVENTS;
      await follow({
        signal: abort,
        last_id: first > 0 ? String(first) : null,
        open: (last_id, signal) =>
          this.#api.open(`./v1/runs/${encodeURIComponent(this.#id)}/events`, {
            signal,
            headers: last_id === null ? {} : { "last-event-id": last_id },
          }),
        onLive: (is_live) => this.is_live.value = is_live || this.#has_ended,
        onEvent: ({ data }) => {
          const event: RunEvent = JSON.parse(data);
          this.take(event);
          is_stale ||= CHANGING_KINDS.has(event.kind);
          if (!is_waiting) is_waiting = (onFrame(draw), true);
        },
      });
    } catch (error) {
      if (!abort.aborted) this.error.value = error;
    } finally {
      clearInterval(timer);
    }
  }

  /** Adds an event. */
  take(event: RunEvent): void {
    this.#is_changed = true;
    if (event.kind === "state" || event.kind === "end") this.#has_ended = event.kind === "end";
    this.#marks.take(event);
    if (event.kind === "metrics") this.#series.take(event);
    if (event.kind === "state") this.#series.drop(event);
    if (!JOURNAL_KINDS.has(event.kind)) return;
    this.#journal.push(event);
    if (this.#journal.length > 2 * JOURNAL_LENGTH) this.#journal = this.#journal.slice(-JOURNAL_LENGTH);
  }

  /** Shows what was taken since the last time. */
  flush(): void {
    if (!this.#is_changed) return;
    this.#is_changed = false;
    this.series.value = new Map(this.#series.by_name);
    this.revision.value = this.#series.revision;
    this.journal.value = this.#journal.slice(-JOURNAL_LENGTH);
    if (this.marks.value.at(-1) !== this.#marks.all.at(-1)) this.marks.value = [...this.#marks.all];
  }

  /** Asks for the run and its health again. */
  async refresh(signal: AbortSignal): Promise<void> {
    const params = { id: this.#id }, request = this.#newest.ask();
    const [run, health] = await Promise.all([
      this.#api.call("GET /v1/runs/{id}", { params, signal }),
      this.#api.call("GET /v1/runs/{id}/health", { params, signal }),
    ]);
    if (!this.#newest.takes(this.#id, request)) return;
    batch(() => {
      this.run.value = run;
      this.health.value = health;
    });
  }

  /** Takes the metrics up to now, in the server's buckets: however long the run, there are not too many to draw. */
  async #loadMetrics(signal: AbortSignal): Promise<void> {
    const answer = await this.#api.call("GET /v1/runs/{id}/metrics", {
      params: { id: this.#id },
      query: { buckets: BUCKETS },
      signal,
    });
    if (!("buckets" in answer)) return;
    this.#series.begin(answer);
    this.has_metrics.value = true;
    this.#is_changed = true;
    this.flush();
  }

  /** Takes new buckets, one request at a time. A failed one is repeated with the next event. */
  #reloadMetrics(signal: AbortSignal): void {
    if (this.#is_loading) return;
    this.#is_loading = true;
    this.#loadMetrics(signal).catch(() => {}).finally(() => this.#is_loading = false);
  }

  /** Looks at the files of a viewed run until the signal. */
  async #followFiles(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const before = this.run.value?.progress.update;
      await waitFor(VIEW_MS, signal);
      if (signal.aborted) return;
      await this.refresh(signal);
      if (this.run.value?.progress.update !== before) await this.#loadMetrics(signal);
    }
  }
}
