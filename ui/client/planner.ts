/** The server's plan for a request that changes while it is written. */

import { signal } from "@preact/signals";
import type { Plan } from "../../api/types.ts";
import { bodyOf, type RunRequest } from "./run_request.ts";

/** How long nothing may change before the server is asked. */
export const QUIET_MS = 350;

/** What is known of the newest request. */
export interface Planned {
  /** The newest plan that the server made, perhaps of an earlier request; null before the first one. */
  plan: Plan | null;
  /** Why the request cannot be planned; null when it can, or is not known to be. */
  error: unknown;
  /** The request that {@link plan} or {@link error} is about. */
  request: RunRequest | null;
  /** What is awaited: the plan of a newer request, or a measurement. */
  awaited: "plan" | "measurement" | null;
}

/** Asks the server. */
export type AskPlan = (
  request: RunRequest,
  options: { signal: AbortSignal; is_measured: boolean },
) => Promise<Plan>;

/** Plans the newest request, once it has not changed for {@link QUIET_MS}. Answers to earlier ones are dropped. */
export class Planner {
  readonly state = signal<Planned>({ plan: null, error: null, request: null, awaited: null });
  readonly #ask: AskPlan;
  readonly #later: (work: () => void) => () => void;
  /** What is under way: a wait or a question. */
  #stop = () => {};
  #wanted: string | null = null;

  /** @param later Does work after {@link QUIET_MS}; returns what prevents it. */
  constructor(ask: AskPlan, later: (work: () => void) => () => void = afterQuiet) {
    this.#ask = ask;
    this.#later = later;
  }

  /** Wants the plan of a request. The same one again changes nothing. */
  want(request: RunRequest): void {
    const { text } = bodyOf(request);
    if (text === this.#wanted) return;
    this.#wanted = text;
    this.#stop();
    this.state.value = { ...this.state.value, awaited: "plan" };
    this.#stop = this.#later(() => this.#plan(request, false));
  }

  /** Asks at once for the plan of a request, once more if need be. @param is_measured Measures it on the device. */
  planNow(request: RunRequest, { is_measured = false } = {}): void {
    this.#wanted = bodyOf(request).text;
    this.#stop();
    this.state.value = { ...this.state.value, awaited: is_measured ? "measurement" : "plan" };
    this.#plan(request, is_measured);
  }

  /** Shows why a request was refused when it was to start. */
  refuse(request: RunRequest, error: unknown): void {
    this.#wanted = bodyOf(request).text;
    this.#stop();
    this.state.value = { ...this.state.value, error, request, awaited: null };
  }

  /** Ends what is under way. */
  close(): void {
    this.#stop();
  }

  #plan(request: RunRequest, is_measured: boolean): void {
    const abort = new AbortController(), { signal } = abort;
    this.#stop = () => abort.abort();
    const take = (answer: Partial<Planned>) => {
      if (!signal.aborted) this.state.value = { ...this.state.value, request, awaited: null, ...answer };
    };
    this.#ask(request, { signal, is_measured }).then(
      (plan) => take({ plan, error: null }),
      (error) => take({ error }),
    );
  }
}

function afterQuiet(work: () => void): () => void {
  const timer = setTimeout(work, QUIET_MS);
  return () => clearTimeout(timer);
}
