/** What happened in a run beside its updates, by the update after which it did. */

import type { Events } from "../../api/types.ts";

/** Something that happened. */
export interface Mark {
  /** Finished updates by then. */
  update: number;
  text: string;
}

type RunEvents = Events["stream_run_events"];
type RunEvent = RunEvents[keyof RunEvents];

/** Marks that are kept; older ones are dropped. */
const MAX_MARKS = 1000;

function stateText({ state, checkpoint }: RunEvents["state"]): string | null {
  if (state === "paused" || state === "interrupted") return state;
  return state === "running" && checkpoint !== null ? "continued" : null;
}

/** Collects the marks of a run's events, which come in their order. */
export class MarkList {
  #marks: Mark[] = [];
  /** Finished updates, by the newest event that says so. */
  #update = 0;

  /** Oldest first. */
  get all(): readonly Mark[] {
    return this.#marks;
  }

  take(event: RunEvent): void {
    const text = this.#textOf(event);
    if (text === null) return;
    this.#marks.push({ update: this.#update, text });
    if (this.#marks.length > MAX_MARKS) this.#marks = this.#marks.slice(-MAX_MARKS);
  }

  #textOf(event: RunEvent): string | null {
    switch (event.kind) {
      case "metrics":
        this.#update = event.update;
        return null;
      case "checkpoint":
        this.#update = event.update;
        return "checkpoint";
      case "state":
        this.#update = event.update;
        return stateText(event);
      case "command":
        return event.command === "set_lr" ? `learning rate ${event.arguments.lr}` : null;
      default:
        return null;
    }
  }
}

/** The index of the first place from an update on; the length when there is none. */
function firstFrom(places: readonly number[], update: number): number {
  let low = 0, high = places.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (places[middle]! < update) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * What happened at each place of a chart, in one text that says the same once; null where nothing did. A place stands for the updates after the
 * one before it, and the first place for all up to it.
 *
 * @param places Updates, smallest first.
 */
export function marksAt(marks: readonly Mark[], places: readonly number[]): (string | null)[] {
  const texts = places.map((): string[] => []);
  for (const { update, text } of marks) texts[firstFrom(places, update)]?.push(text);
  return texts.map((at) => at.length === 0 ? null : [...new Set(at)].join(", "));
}
