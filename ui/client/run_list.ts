/** All runs of the server, kept up to date. */

import { signal } from "@preact/signals";
import type { Events, Run } from "../../api/types.ts";
import { allPages, type Api, ApiProblem } from "./api.ts";
import { follow } from "./event_stream.ts";
import { Newest } from "./newest.ts";

/** How often the progress of runs that train is asked for: the server's stream tells states only. */
export const PROGRESS_MS = 3000;

/** More runs than these that changed at once are asked for with one request: the list. */
export const MOST_SINGLE = 8;

/** The newest runs first. */
export class RunList {
  /** Null until the first answer. */
  readonly runs = signal<readonly Run[] | null>(null);
  readonly error = signal<unknown>(null);
  /** Whether the server's events arrive. */
  readonly is_live = signal(true);
  readonly #api: Api;
  readonly #newest = new Newest();
  /** Runs that changed since the last frame. */
  #changed = new Set<string>();

  constructor(api: Api) {
    this.#api = api;
  }

  /** Loads all runs and follows their changes until the signal. @param onFrame Calls back before the next picture. */
  async follow(
    signal: AbortSignal,
    onFrame: (draw: () => void) => void = (draw) => requestAnimationFrame(draw),
  ): Promise<void> {
    const timer = setInterval(() => this.#refreshLive(signal), PROGRESS_MS);
    try {
      const last_id = await this.#load(signal);
      // View mode has one run and no stream.
      if (last_id !== null) await this.#followEvents(last_id, { signal, onFrame });
    } catch (error) {
      if (!signal.aborted) this.error.value = error;
    } finally {
      clearInterval(timer);
    }
  }

  /** @returns The newest event that all pages have; null where the server has no events. */
  async #load(signal: AbortSignal): Promise<string | null> {
    const request = this.#newest.ask();
    let last_id: string | null = null;
    const onHeaders = (headers: Headers) => last_id ??= headers.get("last-event-id");
    const pages = await allPages((query) => this.#api.call("GET /v1/runs", { query, signal, onHeaders }));
    const before = new Map(this.runs.value?.map((run) => [run.id, run]));
    // What was asked for since is newer, and a run that was removed since is gone.
    this.runs.value = pages.flatMap(({ runs }) => runs).flatMap((run) =>
      this.#newest.takes(run.id, request) ? run : before.get(run.id) ?? []
    );
    this.error.value = null;
    return last_id;
  }

  async #followEvents(first_id: string, { signal, onFrame }: {
    signal: AbortSignal;
    onFrame(draw: () => void): void;
  }): Promise<void> {
    await follow({
      signal,
      last_id: first_id,
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
        else if (name === "created" || name === "state") {
          if (this.#changed.size === 0) onFrame(() => this.#refreshChanged(signal));
          this.#changed.add(event.run);
        }
      },
    });
  }

  /** Asks for the runs that changed: once each, however many events they had. */
  #refreshChanged(signal: AbortSignal): void {
    const changed = this.#changed;
    this.#changed = new Set();
    if (signal.aborted) return;
    if (changed.size > MOST_SINGLE) this.#load(signal).catch(() => {});
    else for (const id of changed) this.#refresh(id, signal);
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
