/** All runs of the server, kept up to date. */

import { signal } from "@preact/signals";
import type { Events, Run } from "../../api/types.ts";
import { allPages, type Api, ApiProblem } from "./api.ts";
import { follow } from "./event_stream.ts";
import { Newest } from "./newest.ts";

/** How often the progress of runs that train is asked for: the server's stream tells states only. */
export const PROGRESS_MS = 3000;

/** View mode has one run and no stream. */
function unlessMissing(error: unknown): void {
  if (!(error instanceof ApiProblem && error.kind === "not-found")) throw error;
}

/** The newest runs first. */
export class RunList {
  /** Null until the first answer. */
  readonly runs = signal<readonly Run[] | null>(null);
  readonly error = signal<unknown>(null);
  /** Whether the server's events arrive. */
  readonly is_live = signal(true);
  readonly #api: Api;
  readonly #newest = new Newest();

  constructor(api: Api) {
    this.#api = api;
  }

  /** Loads all runs and follows their changes until the signal. */
  async follow(signal: AbortSignal): Promise<void> {
    const timer = setInterval(() => this.#refreshLive(signal), PROGRESS_MS);
    try {
      // Events that come while the list is loaded are not lost: they name runs, which are asked for again.
      await Promise.all([this.#load(signal), this.#followEvents(signal).catch(unlessMissing)]);
    } catch (error) {
      if (!signal.aborted) this.error.value = error;
    } finally {
      clearInterval(timer);
    }
  }

  async #load(signal: AbortSignal): Promise<void> {
    const request = this.#newest.ask();
    const pages = await allPages((query) => this.#api.call("GET /v1/runs", { query, signal }));
    const before = new Map(this.runs.value?.map((run) => [run.id, run]));
    // What was asked for since is newer, and a run that was removed since is gone.
    this.runs.value = pages.flatMap(({ runs }) => runs).flatMap((run) =>
      this.#newest.takes(run.id, request) ? run : before.get(run.id) ?? []
    );
    this.error.value = null;
  }

  async #followEvents(signal: AbortSignal): Promise<void> {
    await follow({
      signal,
      open: (last_id, stream_signal) =>
        this.#api.open("./v1/events", {
          signal: stream_signal,
          headers: last_id === null ? {} : { "last-event-id": last_id },
        }),
      onLive: (is_live) => this.is_live.value = is_live,
      onEvent: ({ name, data }) => {
        const event = JSON.parse(data) as Events["stream_events"][keyof Events["stream_events"]];
        if (event.kind === "gap") this.#load(signal).catch(() => {});
        else if (event.kind === "deleted") this.#remove(event.run);
        else if (name === "created" || name === "state") this.#refresh(event.run, signal);
      },
    });
  }

  async #refreshLive(signal: AbortSignal): Promise<void> {
    if (document.hidden) return;
    const live = this.runs.value?.filter(({ state }) => state === "running" || state === "starting") ?? [];
    await Promise.all(live.map(({ id }) => this.#refresh(id, signal)));
  }

  /** Takes the newest state of a run; one that is gone is removed. */
  async #refresh(id: string, signal: AbortSignal): Promise<void> {
    const request = this.#newest.ask();
    try {
      const run = await this.#api.call("GET /v1/runs/{id}", { params: { id }, signal });
      if (!this.#newest.takes(id, request)) return;
      const others = this.runs.value ?? [];
      const at = others.findIndex((other) => other.id === id);
      this.runs.value = at < 0 ? [run, ...others] : others.with(at, run);
    } catch (error) {
      if (error instanceof ApiProblem && error.kind === "not-found") this.#remove(id);
    }
  }

  #remove(id: string): void {
    this.#newest.takes(id, this.#newest.ask());
    this.runs.value = this.runs.value?.filter((run) => run.id !== id) ?? null;
  }
}
