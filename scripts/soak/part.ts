/** What every part of `deno task soak` has. */

export interface SoakOptions {
  /** How often the part does what it does. */
  count: number;
  /** How long it goes on, unless it has done so `count` times before. */
  minutes: number;
  /** Of everything that is random. */
  seed: number;
  /** Tells how far it is. */
  say(text: string): void;
}

/** What was found. The criteria that were missed are `failures`; the rest are measurements. */
export interface SoakResult {
  failures: string[];
  [measured: string]: unknown;
}

export interface SoakPart {
  /** One line for people. */
  what: string;
  /** What a complete run does; `Infinity` where only the other one ends it. */
  full: Pick<SoakOptions, "count" | "minutes">;
  /** @throws {Error} Where the part cannot run, with the reason. */
  run(options: SoakOptions): Promise<SoakResult>;
}

/** Waits; the parts run beside real servers. */
export const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** The first failures, and how many there are. */
export function firstOf(failures: readonly string[], most = 20): string[] {
  if (failures.length <= most) return [...failures];
  return [...failures.slice(0, most), `and ${failures.length - most} more`];
}

/** The value below which a share of the values lies. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0;
}

/** Four significant digits: more would be noise. */
export const rounded = (value: number) => Number(value.toPrecision(4));
