/** Uploaded datasets. */

import { z } from "zod";
import type { DataKind } from "../../config/algorithms.ts";
import { LIMITS } from "../../config/sections/limits.ts";
import { TEXTS } from "../../config/text/text_kinds.ts";
import { ServiceError } from "../../core/errors.ts";
import { DATASET_KINDS } from "../../runs/datasets/dataset_kind.ts";
import { DATASET_ID, type DatasetCard, datasetCardSchema } from "../../runs/datasets/dataset_store.ts";
import { jobOn } from "../resources/job_problems.ts";
import { jsonValue } from "../http/json_value.ts";
import { oneLine } from "../http/one_line.ts";
import { nextCursor, NUMBER_KEYS, PagedList } from "../http/page.ts";
import { clientFile } from "../access/paths.ts";
import { conflict, invalidRequest, notFound, problemAt } from "../http/problems.ts";
import { integerParameter } from "../http/query.ts";
import { empty, json, type Route, route } from "../routing/route.ts";
import type { Services } from "../routing/services.ts";

const JSON_TYPE = "application/json";

const absent = () => notFound("There is no such dataset; GET /v1/datasets lists them", "/path/id");

/** The dataset of the path. @throws {Problem} `not-found`. */
async function findDataset({ id }: { id: string }, { datasets }: Services): Promise<DatasetCard> {
  const card = await datasets.get(id);
  if (!card) throw absent();
  return card;
}

/** Work that reads the files of a dataset. @throws {Problem} `not-found` when it fails and the dataset is deleted. */
async function reading<T>(
  { id }: DatasetCard,
  datasets: Services["datasets"],
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (await datasets.get(id)) throw error;
    throw absent();
  }
}

/** The kind, for routes that render rows. Files are asked for first, then what they hold. @throws {Problem} `invalid-request`. */
function kindOf({ kind }: DatasetCard): DataKind {
  if (kind) return kind;
  const message = "is a dataset without a kind: no row has the fields of one";
  throw invalidRequest([{ pointer: "/path/id", code: "invalid_value", message }]);
}

/** A line number in a path; null for anything else. */
function lineOf(text: string): number | null {
  return /^[1-9]\d{0,14}$/.test(text) ? Number(text) : null;
}

const DATASET_LIST = new PagedList("datasets", DATASET_ID);

const listDatasets = route({
  method: "GET",
  path: "/v1/datasets",
  operation: "list_datasets",
  summary: "Datasets, newest first.",
  query: z.strictObject(DATASET_LIST.query),
  answers: {
    200: {
      description: "The cards of datasets.",
      content: {
        [JSON_TYPE]: z.strictObject({ datasets: z.array(datasetCardSchema), next_cursor: nextCursor })
          .meta({ id: "DatasetList" }),
      },
    },
  },
  async handler({ query, services: { datasets } }) {
    const newest_first = { ...query, keyOf: ({ id }: DatasetCard) => id, falling: true };
    const { items, next_cursor } = DATASET_LIST.page(await datasets.list(), newest_first);
    return json(200, { datasets: items, next_cursor });
  },
});

const card = { [JSON_TYPE]: datasetCardSchema };

const createDataset = route({
  method: "POST",
  path: "/v1/datasets",
  operation: "create_dataset",
  summary: "Uploads NDJSON. A dataset with broken lines is stored, with its problems.",
  query: z.strictObject({
    name: oneLine(200).optional().meta({ description: "Absent: the id." }),
    kind: z.enum(["auto", ...DATASET_KINDS]).default("auto").meta({
      description: "auto takes the kind whose fields the first rows have.",
    }),
  }),
  body: {
    limit: "max_dataset_bytes",
    content: { "application/x-ndjson": z.string().meta({ description: "One JSON object a line." }) },
  },
  answers: {
    200: { description: "These bytes are stored already: the card of the first upload.", content: card },
    201: {
      description: "Stored.",
      content: card,
      headers: { Location: "The path of the dataset." },
    },
  },
  problems: { "invalid-request": ["unsupported_format"], conflict: ["conflict"], "device-busy": [] },
  async handler({ query: { name, kind }, body: { stream }, request: { signal }, services: { datasets } }) {
    try {
      const { card, is_new } = await datasets.create({ stream, name, kind, signal });
      if (!is_new) return json(200, card);
      return { ...json(201, card), headers: { location: `/v1/datasets/${card.id}` } };
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error;
      throw problemAt(error.code === "conflict" ? "/query/kind" : "", error);
    }
  },
});

const getDataset = route({
  method: "GET",
  path: "/v1/datasets/{id}",
  operation: "get_dataset",
  summary: "The card of a dataset.",
  answers: { 200: { description: "The card.", content: card } },
  find: findDataset,
  handler: ({ found }) => json(200, found),
});

const deleteDataset = route({
  method: "DELETE",
  path: "/v1/datasets/{id}",
  operation: "delete_dataset",
  summary: "Deletes a dataset that no live run uses.",
  answers: { 204: { description: "Deleted." } },
  problems: { conflict: ["conflict"] },
  find: findDataset,
  async handler({ found, services: { datasets, isDatasetInUse } }) {
    await datasets.delete(found, async () => {
      if (await isDatasetInUse(found.id)) throw conflict("A live run uses the dataset");
      if (datasets.isHeld(found.id)) {
        throw conflict("A request that is being planned names the dataset; try again when it has its answer");
      }
    });
    return empty(204);
  },
});

const shownRow = z.strictObject({
  line: z.int().gte(1),
  row: z.record(z.string(), jsonValue).nullable().meta({
    description: "Null when the line is no object or has more than 65,536 characters.",
    ...TEXTS.data,
  }),
  text: z.string().nullable().meta({
    description: "The first 2,000 characters of a line without row; null when it cannot be read.",
    ...TEXTS.data,
  }),
  problem: z.string().nullable().meta({ description: "Why training would refuse the line." }),
}).meta({ id: "DatasetRow" });

/** The key is a line. */
const PREVIEW_LIST = new PagedList("rows", NUMBER_KEYS);

const previewDataset = route({
  method: "GET",
  path: "/v1/datasets/{id}/preview",
  operation: "preview_dataset",
  summary: "The first rows as they are read.",
  query: z.strictObject(PREVIEW_LIST.query),
  answers: {
    200: {
      description: "Rows in the order of the file.",
      content: {
        [JSON_TYPE]: z.strictObject({
          rows: z.array(shownRow),
          next_cursor: nextCursor,
        }).meta({ id: "DatasetPreview" }),
      },
    },
  },
  problems: { "device-busy": [] },
  find: findDataset,
  async handler({ found, query: { limit, cursor }, request: { signal }, services: { datasets, jobs } }) {
    const line = PREVIEW_LIST.numberOf(cursor, 1), path = datasets.pathOf(found), { kind } = found;
    const { rows, next } = await reading(found, datasets, async () => {
      const from = await datasets.startOf(found, line);
      return await jobs.run("preview_rows", { path, kind, line, from, limit }, signal);
    });
    const next_cursor = next === null ? null : PREVIEW_LIST.cursorOf(next);
    return json(200, { rows: rows as z.input<typeof shownRow>[], next_cursor });
  },
});

const CTX = LIMITS["training.ctx"], ctxSchema = z.int().gte(CTX.min).lte(CTX.max);

/** The key is the number of tokens before. */
const TOKEN_LIST = new PagedList("row_tokens", NUMBER_KEYS);

const listRowTokens = route({
  method: "GET",
  path: "/v1/datasets/{id}/rows/{n}/tokens",
  operation: "list_row_tokens",
  summary: "The tokens of a row as they would be trained. n is the row's line, from 1.",
  query: z.strictObject({
    model: z.string().min(1).meta({ description: "Path of a GGUF file in path_roots." }),
    ctx: integerParameter(CTX.min, CTX.max).optional().meta({
      description: "Tokens after it are not trained; absent: the training default.",
    }),
    ...TOKEN_LIST.query,
  }),
  answers: {
    200: {
      description: "Tokens in order: all sequences of the row, one after the other.",
      content: {
        [JSON_TYPE]: z.strictObject({
          tokens: z.array(
            z.strictObject({
              id: z.int().gte(0),
              text: z.string().meta(TEXTS.data),
              origin: z.enum(["prompt", "model", "tool", "forced"]),
              trained: z.boolean(),
              sequence: z.int().gte(0).meta({ description: "The sequence of the row, from 0." }),
              side: z.enum(["chosen", "rejected"]).nullable().meta({
                description: "The completion of a pair; null for rows of other kinds.",
              }),
            }).meta({ id: "DatasetToken", description: "A token of a row as it would be trained." }),
          ),
          next_cursor: nextCursor,
        }).meta({ id: "DatasetTokens" }),
      },
    },
  },
  problems: {
    "forbidden-path": ["forbidden_path"],
    "invalid-request": ["path_not_found", "unsupported_format"],
    "device-busy": [],
  },
  async find({ id, n }, services) {
    const card = await findDataset({ id }, services), line = lineOf(n);
    const { datasets } = services;
    const has_line = line !== null && await reading(card, datasets, () => datasets.hasLine(card, line));
    if (!has_line) throw notFound("There is no such row: rows are numbered by line, from 1", "/path/n");
    return { card, line };
  },
  async handler({ found: { card, line }, query, request: { signal }, services: { datasets, jobs, config } }) {
    const start = TOKEN_LIST.numberOf(query.cursor, 0), pointer = "/query/model";
    const model = await clientFile(query.model, { roots: config.path_roots, pointer });
    const kind = kindOf(card);
    const rendered = { model, ctx: query.ctx ?? null, template_variables: {} };
    const named = { pointer, named: query.model, file: model }, path = datasets.pathOf(card);
    const answer = await reading(card, datasets, async () => {
      const place = { path, line, from: await datasets.startOf(card, line) };
      const asked = { ...rendered, ...place, kind, start, limit: query.limit };
      return await jobOn(jobs.run("row_tokens", asked, signal), named, "/path/n");
    });
    if (!answer) throw notFound("There is no such row", "/path/n");
    const { tokens, has_more } = answer;
    return json(200, { tokens, next_cursor: has_more ? TOKEN_LIST.cursorOf(start + tokens.length) : null });
  },
});

const lineProblem = z.strictObject({ line: z.int().gte(1), message: z.string() });

const tokenizeDataset = route({
  method: "POST",
  path: "/v1/datasets/{id}/tokenize",
  operation: "tokenize_dataset",
  summary: "How long the rows of a dataset are in tokens.",
  body: {
    limit: "max_body_bytes",
    content: {
      [JSON_TYPE]: z.strictObject({
        model: z.string().min(1).meta({ description: "Path of a GGUF file in path_roots." }),
        ctx: ctxSchema.optional().meta({ description: "Absent: the training default." }),
        template_variables: z.record(z.string(), jsonValue).default({}).meta({
          description: "Such as enable_thinking; as in the run.",
        }),
      }).meta({ id: "TokenizeRequest" }),
    },
  },
  answers: {
    200: {
      description: "The length of a row is that of its longest sequence. After 60 s the rows so far.",
      content: {
        [JSON_TYPE]: z.strictObject({
          ctx: z.int().gte(1),
          rows: z.int().gte(0).meta({ description: "Rows that were tokenised." }),
          complete: z.boolean().meta({ description: "False when the time was up before the last row." }),
          sequences: z.int().gte(0),
          tokens: z.int().gte(0).meta({ description: "Of all sequences, also after ctx." }),
          trained_tokens: z.int().gte(0),
          histogram: z.array(
            z.strictObject({
              min_tokens: z.int().gte(0),
              max_tokens: z.int().gte(1),
              rows: z.int().gte(0),
            }),
          ).meta({ description: "Rows by length; each bin after the first ends at twice as many tokens." }),
          longest: z.array(z.strictObject({ line: z.int().gte(1), tokens: z.int().gte(0) })).meta({
            description: "The 20 longest rows, longest first.",
          }),
          truncated: z.strictObject({ rows: z.int().gte(0), lines: z.array(z.int().gte(1)) }).meta({
            description: "Rows with a sequence longer than ctx, and the lines of the first 20.",
          }),
          problems: z.array(lineProblem).meta({ description: "The first 20 lines that cannot be rendered." }),
        }).meta({ id: "TokenizeSummary" }),
      },
    },
  },
  problems: {
    "forbidden-path": ["forbidden_path"],
    "invalid-request": ["path_not_found", "unsupported_format"],
    "device-busy": [],
  },
  find: findDataset,
  async handler({ found, body: { value }, request: { signal }, services: { datasets, jobs, config } }) {
    const pointer = "/model";
    const { model: named, ctx = null, template_variables } = value;
    const model = await clientFile(named, { roots: config.path_roots, pointer }), kind = kindOf(found);
    const asked = { path: datasets.pathOf(found), kind, model, ctx, template_variables };
    const summary = await reading(found, datasets, () => {
      return jobOn(jobs.run("tokenize_dataset", asked, signal), { pointer, named, file: model });
    });
    return json(200, summary);
  },
});

export const DATASET_ROUTES: readonly Route[] = [
  listDatasets,
  createDataset,
  getDataset,
  deleteDataset,
  listRowTokens,
  previewDataset,
  tokenizeDataset,
];
