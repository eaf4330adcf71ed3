/** Metrics of a run as samples, buckets and series. */

import { assert } from "../../core/errors.ts";

/** A metrics event of an index. */
export interface MetricRow {
  seq: number;
  update: number;
  step: number;
  time_ms: number;
  names: readonly string[];
  values: ArrayLike<number>;
}

/** A value of a metric. */
export interface MetricSample {
  seq: number;
  /** RFC 3339, UTC. */
  time: string;
  update: number;
  step: number;
  name: string;
  value: number;
}

/** The samples of an event. @param names Only these metrics. */
export function samplesOf(row: MetricRow, names?: ReadonlySet<string>): MetricSample[] {
  const { seq, update, step } = row, time = new Date(row.time_ms).toISOString();
  return row.names.flatMap((name, i) =>
    names && !names.has(name) ? [] : [{ seq, time, update, step, name, value: row.values[i]! }]
  );
}

/** An event as lines of CSV, in the columns of `METRICS_CSV_HEADER`. */
export function csvOf(row: MetricRow): string {
  return samplesOf(row).map(csvLine).join("");
}

/** A sample as a line of CSV. Names and numbers need no quotes. */
export function csvLine({ seq, time, update, step, name, value }: MetricSample): string {
  return `${seq},${time},${update},${step},${name},${value}\n`;
}

/** A metric over neighbouring updates. */
export interface Bucket {
  name: string;
  /** The updates of its first and last sample. */
  first_update: number;
  last_update: number;
  /** The number of samples. */
  count: number;
  min: number;
  mean: number;
  max: number;
  /** The value of the last step. */
  last: number;
}

/** The updates that buckets divide, both included. */
export interface UpdateRange {
  first: number;
  last: number;
}

/**
 * Puts samples into buckets of equally many updates: update u is in bucket ⌊(u − first) · n / (last − first + 1)⌋ of n.
 * With no more than n updates each has a bucket of its own. Buckets without a sample are left out.
 */
export class Buckets {
  readonly #range: UpdateRange;
  readonly #count: number;
  readonly #by_name = new Map<string, Map<number, Bucket>>();

  /** @param count The most buckets, n; fewer when there are fewer updates. */
  constructor(range: UpdateRange, count: number) {
    this.#range = range;
    this.#count = Math.min(count, range.last - range.first + 1);
  }

  /** The number of buckets, empty ones included. */
  get count(): number {
    return this.#count;
  }

  /** The bucket of an update. */
  at(update: number): number {
    const { first, last } = this.#range;
    assert(update >= first && update <= last, `update ${update} outside of ${first} to ${last}`);
    return Math.floor((update - first) * this.#count / (last - first + 1));
  }

  /** The first and last update of a bucket. */
  updatesOf(bucket: number): UpdateRange {
    const { first, last } = this.#range, updates = last - first + 1;
    return {
      first: first + Math.ceil(bucket * updates / this.#count),
      last: first + Math.ceil((bucket + 1) * updates / this.#count) - 1,
    };
  }

  /** Adds an event. Events come in the order of update and step. */
  add(row: MetricRow, names?: ReadonlySet<string>): void {
    const at = this.at(row.update);
    row.names.forEach((name, i) => {
      if (names && !names.has(name)) return;
      const of_name = this.#by_name.get(name) ?? new Map<number, Bucket>();
      this.#by_name.set(name, of_name);
      const bucket = of_name.get(at);
      if (bucket) extend(bucket, row.update, row.values[i]!);
      else of_name.set(at, newBucket(name, row.update, row.values[i]!));
    });
  }

  /** The names of all metrics, sorted. */
  names(): string[] {
    return [...this.#by_name.keys()].sort();
  }

  /** The buckets of a metric, in order. */
  of(name: string): Map<number, Bucket> {
    return this.#by_name.get(name) ?? new Map();
  }
}

function newBucket(name: string, update: number, value: number): Bucket {
  return {
    name,
    first_update: update,
    last_update: update,
    count: 1,
    min: value,
    mean: value,
    max: value,
    last: value,
  };
}

function extend(bucket: Bucket, update: number, value: number): void {
  bucket.count++;
  bucket.last_update = update;
  bucket.min = Math.min(bucket.min, value);
  bucket.max = Math.max(bucket.max, value);
  // The difference of large values may overflow, so each is divided first. Rounding must not leave the range.
  const mean = bucket.mean + (value / bucket.count - bucket.mean / bucket.count);
  bucket.mean = Math.min(Math.max(mean, bucket.min), bucket.max);
  bucket.last = value;
}
