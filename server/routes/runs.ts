/** Records of runs. */

import { z } from "zod";
import { number } from "../../config/sections/fields.ts";
import type { ManagedRun } from "../../runs/fleet/managed_run.ts";
import { RUN_FOLDER } from "../../runs/fleet/new_run.ts";
import { askFleet, findManagedRun, fleetOf } from "../resources/fleet_problems.ts";
import { oneLine } from "../http/one_line.ts";
import { nextCursor, PagedList } from "../http/page.ts";
import { createRun, keepAnswerOf } from "../requests/create_run.ts";
import { IDEMPOTENCY_KEY, RUN_BODY } from "../requests/run_body.ts";
import { RUN_PROBLEMS, runName } from "../requests/run_request.ts";
import { empty, json, JsonPart, jsonPieces, type Route, route } from "../routing/route.ts";
import { runDocument } from "../resources/run_document.ts";
import { runCardSchema, runFilters } from "../resources/run_schema.ts";

/** A page of more runs is sent in pieces: each may have notes of up to 400 kB of JSON. */
const RUNS_AT_ONCE = 10;

async function* pageTexts(
  runs: readonly ManagedRun[],
  next_cursor: string | null,
): AsyncGenerator<string | JsonPart> {
  let before = '{"runs":[';
  for (const run of runs) {
    yield before;
    yield new JsonPart(runDocument(run), runCardSchema);
    before = ",";
  }
  yield `],"next_cursor":${JSON.stringify(next_cursor)}}`;
}

const RUN_LIST = new PagedList("runs", RUN_FOLDER);

const listRuns = route({
  method: "GET",
  path: "/v1/runs",
  operation: "list_runs",
  summary: "Runs, newest first.",
  query: z.object({ ...runFilters, ...RUN_LIST.query }),
  answers: {
    200: {
      description: "A page of runs.",
      content: {
        "application/json": z.strictObject({ runs: z.array(runCardSchema), next_cursor: nextCursor }),
      },
      headers: {
        "Last-Event-ID":
          "The newest event of /v1/events when the answer began. The runs have it and all before it.",
      },
    },
  },
  handler({ query: { state, algorithm, name, limit, cursor }, services }) {
    const headers = { "last-event-id": String(services.fleet_events.last_seq) };
    const runs = fleetOf(services).list().filter(({ record, service }) =>
      (state === undefined || record.state === state) &&
      (algorithm === undefined || record.algorithm === algorithm) &&
      (name === undefined || service.name === name)
    );
    const { items, next_cursor } = RUN_LIST.page(runs, {
      limit,
      cursor,
      keyOf: ({ id }) => id,
      falling: true,
    });
    if (items.length > RUNS_AT_ONCE) return { ...jsonPieces(200, pageTexts(items, next_cursor)), headers };
    return { ...json(200, { runs: items.map(runDocument), next_cursor }), headers };
  },
});

const create = route({
  method: "POST",
  path: "/v1/runs",
  operation: "create_run",
  summary: "Starts a run from a recipe, a configuration or a fork.",
  headers: IDEMPOTENCY_KEY,
  body: RUN_BODY,
  answers: {
    201: {
      description: "The new run.",
      content: { "application/json": runCardSchema },
      headers: { "Location": "The path of the run." },
    },
    200: {
      description:
        "The run of an earlier request with the same Idempotency-Key, for 24 hours; a deleted run as it " +
        "was created.",
      content: { "application/json": runCardSchema },
    },
  },
  problems: { ...RUN_PROBLEMS, "device-busy": [] },
  async handler({ body, services, request }) {
    const { document, is_new } = await createRun(body, { services, request });
    if (!is_new) return json(200, document);
    return { ...json(201, document), headers: { location: `/v1/runs/${document.id}` } };
  },
});

const getRun = route({
  method: "GET",
  path: "/v1/runs/{id}",
  operation: "get_run",
  summary: "A run.",
  find: findManagedRun,
  answers: { 200: { description: "The run.", content: { "application/json": runCardSchema } } },
  handler: ({ found }) => json(200, runDocument(found)),
});

/** The longest notes, and the limits of tags. */
const MAX_NOTES_CHARS = 65_536, MAX_TAGS = 64, MAX_TAG_CHARS = 128;

const updateSchema = z.strictObject({
  name: runName.optional(),
  notes: z.string().max(MAX_NOTES_CHARS).optional(),
  tags: z.array(oneLine(MAX_TAG_CHARS)).max(MAX_TAGS).optional(),
  training: z.strictObject({ lr: number("training.lr") }).optional().meta({
    description: "A new learning rate; it takes effect at the next update.",
  }),
}).meta({ id: "RunUpdate" });

const updateRun = route({
  method: "PATCH",
  path: "/v1/runs/{id}",
  operation: "update_run",
  summary: "Changes name, notes, tags or the learning rate.",
  find: findManagedRun,
  body: { content: { "application/json": updateSchema }, limit: "max_body_bytes" },
  answers: { 200: { description: "The changed run.", content: { "application/json": runCardSchema } } },
  problems: { "conflict": ["conflict"] },
  async handler({ body: { value }, found, services }) {
    const { training, name, notes, tags } = value, fleet = fleetOf(services), { service } = found;
    const changed = {
      ...(name !== undefined && { name }),
      ...(notes !== undefined && { notes }),
      ...(tags !== undefined && { tags }),
    };
    const old = {
      ...(name !== undefined && { name: service.name }),
      ...(notes !== undefined && { notes: service.notes }),
      ...(tags !== undefined && { tags: service.tags }),
    };
    const has_texts = Object.keys(changed).length > 0;
    // These come first because they can be undone. A learning rate that the run has accepted cannot.
    if (has_texts) await askFleet(fleet.change(found.id, changed));
    if (training) {
      try {
        await askFleet(fleet.command(found.id, { command: "set_lr", lr: training.lr }));
      } catch (error) {
        if (has_texts) await fleet.change(found.id, old).catch(() => {});
        throw error;
      }
    }
    return json(200, runDocument(found));
  },
});

const deleteRun = route({
  method: "DELETE",
  path: "/v1/runs/{id}",
  operation: "delete_run",
  summary: "Deletes a run that has ended or is interrupted.",
  find: findManagedRun,
  answers: { 204: { description: "The run has been deleted." } },
  problems: { "conflict": ["conflict"] },
  async handler({ found, services }) {
    keepAnswerOf(found, services);
    await askFleet(fleetOf(services).delete(found.id));
    return empty(204);
  },
});

export const RUN_ROUTES: readonly Route[] = [
  listRuns,
  create,
  getRun,
  updateRun,
  deleteRun,
];
