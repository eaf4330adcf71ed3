/** Samples of a run's metrics. */

import { z } from "zod";
import { METRICS_CSV_HEADER } from "../../runs/record/metrics_csv.ts";
import {
  type Bucket,
  Buckets,
  csvLine,
  type MetricSample,
  samplesOf,
} from "../../runs/results/metric_series.ts";
import { findRun } from "../resources/find_run.ts";
import { integerParameter, listParameter } from "../http/query.ts";
import { jsonPieces, raw, type Route, route, textStream } from "../routing/route.ts";
import { followRun } from "../resources/run_logs.ts";
import type { Database } from "../store/database.ts";
import { csvSize, type MetricSelection, rowsBySeq, rowsByUpdate, updateRange } from "../store/metric_rows.ts";

/** The most samples in an answer. */
const MAX_SAMPLES = 100_000;

const DEFAULT_SAMPLES = 10_000;

/** The most buckets of one metric. */
const MAX_BUCKETS = 1000;

const MAX_NAMES = 200;

const sampleSchema = z.strictObject({
  seq: z.int().gte(0).meta({ description: "The number of the event." }),
  time: z.string().meta({ format: "date-time" }),
  update: z.int().gte(0),
  step: z.int().gte(0).meta({ description: "Optimiser steps so far." }),
  name: z.string(),
  value: z.number(),
}).meta({ id: "Sample", description: "A value of a metric." });

const bucketSchema = z.strictObject({
  name: z.string(),
  first_update: z.int().gte(0).meta({ description: "The update of its first sample." }),
  last_update: z.int().gte(0).meta({ description: "The update of its last sample." }),
  count: z.int().gte(0).meta({ description: "The number of samples." }),
  min: z.number(),
  mean: z.number(),
  max: z.number(),
  last: z.number().meta({ description: "The value of the last step." }),
}).meta({ id: "MetricBucket" });

const query = z.strictObject({
  since: integerParameter(0, Number.MAX_SAFE_INTEGER).default(0).meta({
    description: "Only samples of events with a larger number.",
  }),
  names: listParameter(1, MAX_NAMES).optional().meta({
    description: `Up to ${MAX_NAMES} metrics, with commas between them; absent: all.`,
  }),
  limit: integerParameter(1, MAX_SAMPLES).optional().meta({
    description:
      `The most samples, 1 to ${MAX_SAMPLES}; absent: ${DEFAULT_SAMPLES}, and all for CSV. An event is not divided: an ` +
      "answer that would begin with a larger one has all of it.",
  }),
  buckets: integerParameter(1, MAX_BUCKETS).optional().meta({
    description: `Instead of samples, up to this many buckets for each metric, 1 to ${MAX_BUCKETS}.`,
  }),
  first_update: integerParameter(0, Number.MAX_SAFE_INTEGER).optional().meta({
    description: "Only samples of this update and later ones. Buckets divide the updates that are left.",
  }),
  last_update: integerParameter(0, Number.MAX_SAFE_INTEGER).optional().meta({
    description: "Only samples of this update and earlier ones.",
  }),
  format: z.enum(["json", "csv"]).default("json").meta({ description: "The media type of the answer." }),
}).refine(({ limit, buckets }) => limit === undefined || buckets === undefined, {
  path: ["limit"],
  error: "cannot be combined with buckets, which have all samples",
  when: () => true,
}).refine(({ first_update: first = 0, last_update: last = first }) => first <= last, {
  path: ["last_update"],
  error: "must not be before first_update",
});

/** Texts of about this length are sent at once. */
const PIECE_CHARS = 1 << 15;

/** Joins short texts. */
async function* inPieces(texts: AsyncIterable<string>): AsyncGenerator<string> {
  let piece = "";
  for await (const text of texts) {
    piece += text;
    if (piece.length < PIECE_CHARS) continue;
    yield piece;
    piece = "";
  }
  if (piece !== "") yield piece;
}

/** The samples of each event, up to a limit. */
async function* limitedSamples(
  database: Database,
  selection: MetricSelection,
  limit: number,
): AsyncGenerator<MetricSample[]> {
  const names = selection.names && new Set(selection.names);
  let count = 0;
  for await (const row of rowsBySeq(database, selection)) {
    const samples = samplesOf(row, names);
    if (samples.length === 0) continue;
    if (count > 0 && count + samples.length > limit) return;
    count += samples.length;
    yield samples;
  }
}

async function* samplesJson(events: AsyncIterable<MetricSample[]>, since: number): AsyncGenerator<string> {
  let next_since = since;
  yield '{"samples":[';
  for await (const samples of events) {
    const text = samples.map((sample) => JSON.stringify(sample)).join(",");
    yield next_since === since ? text : `,${text}`;
    next_since = samples[0]!.seq;
  }
  yield `],"next_since":${next_since}}`;
}

async function* samplesCsv(events: AsyncIterable<MetricSample[]>): AsyncGenerator<string> {
  yield METRICS_CSV_HEADER;
  for await (const samples of events) {
    yield samples.map(csvLine).join("");
  }
}

/** The buckets of a run's metrics, by name. */
async function* bucketsOf(database: Database, selection: MetricSelection, n: number): AsyncGenerator<Bucket> {
  const range = updateRange(database, selection);
  if (!range) return;
  const buckets = new Buckets(range, n), names = selection.names && new Set(selection.names);
  // Further events that the run has written since are left out.
  for await (const row of rowsByUpdate(database, { ...selection, updates: range })) buckets.add(row, names);
  for (const name of buckets.names()) yield* buckets.of(name).values();
}

/** @param last_seq The newest event that the buckets may have. */
async function* bucketsJson(buckets: AsyncIterable<Bucket>, last_seq: number): AsyncGenerator<string> {
  let before = '{"buckets":[';
  for await (const bucket of buckets) {
    yield before + JSON.stringify(bucket);
    before = ",";
  }
  yield `${before === "," ? "" : before}],"next_since":${last_seq}}`;
}

async function* bucketsCsv(buckets: AsyncIterable<Bucket>): AsyncGenerator<string> {
  yield `${Object.keys(bucketSchema.shape).join(",")}\n`;
  for await (const bucket of buckets) yield `${Object.values(bucket).join(",")}\n`;
}

const csv = (texts: AsyncIterable<string>) => raw(200, "text/csv", textStream(inPieces(texts)));

const listMetrics = route({
  method: "GET",
  path: "/v1/runs/{id}/metrics",
  operation: "list_metrics",
  summary: "Samples of the metrics, as JSON or CSV.",
  in_view_mode: true,
  query,
  answers: {
    200: {
      description:
        "Samples in the order of their events. A sample with the update, step and name of an earlier one replaces it, " +
        "and after a resume the updates that are not yet repeated are missing. Pass next_since as since to continue.",
      content: {
        "application/json": z.union([
          z.strictObject({ samples: z.array(sampleSchema), next_since: z.int().gte(0) }).meta({
            id: "Samples",
          }),
          z.strictObject({
            buckets: z.array(bucketSchema),
            next_since: z.int().gte(0).meta({
              description:
                "The newest event with metrics when the answer began. The buckets have it and all before it.",
            }),
          }).meta({ id: "MetricBuckets", description: "Metrics by parts of a run." }),
        ]),
        "text/csv": z.string(),
      },
    },
  },
  find: findRun,
  async handler({ query: { since, names, limit, buckets: n, format, ...range }, found, services }) {
    const run = await followRun(found, services), { database } = services;
    const updates = { first: range.first_update ?? 0, last: range.last_update ?? Number.MAX_SAFE_INTEGER };
    const selection = { run, since, names, updates };
    if (n !== undefined) {
      const buckets = bucketsOf(database, selection, n);
      if (format === "csv") return csv(bucketsCsv(buckets));
      // Read before the buckets, so that a client that goes on after it misses nothing.
      const { last_seq } = csvSize(database, run);
      return jsonPieces(200, inPieces(bucketsJson(buckets, last_seq)));
    }
    const most = limit ?? (format === "csv" ? Infinity : DEFAULT_SAMPLES);
    const events = limitedSamples(database, selection, most);
    return format === "csv" ? csv(samplesCsv(events)) : jsonPieces(200, inPieces(samplesJson(events, since)));
  },
});

export const METRIC_ROUTES: readonly Route[] = [listMetrics];
