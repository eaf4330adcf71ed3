/** Evaluations of a run. */

import { z } from "zod";
import { readEventsAt } from "../../runs/results/run_log.ts";
import { evaluationOf, evaluationResourceSchema } from "../resources/evaluation.ts";
import { findRun } from "../resources/find_run.ts";
import { nextCursor, PagedList } from "../http/page.ts";
import { notFound } from "../http/problems.ts";
import { json, JsonPart, jsonPieces, type Route, route } from "../routing/route.ts";
import { eventsPath, followRun } from "../resources/run_logs.ts";
import type { StoredRun } from "../sources/run_source.ts";
import type { Services } from "../routing/services.ts";
import { type EventPlace, eventPlaces } from "../store/event_places.ts";

/** Numbers have at most this many digits; a cursor has all of them, so that its keys fall as texts. */
const DIGITS = 9;

/** The evaluations of a run, newest first. */
async function placesOf(run: StoredRun, services: Services): Promise<EventPlace[]> {
  const id = await followRun(run, services);
  return eventPlaces(services.database, id, "evaluation").sort((a, b) => Number(b.name) - Number(a.name));
}

async function* listJson(
  path: string,
  places: readonly EventPlace[],
  next_cursor: string | null,
): AsyncGenerator<string | JsonPart> {
  let before = '{"evaluations":[';
  for await (const event of readEventsAt(path, "evaluation", places)) {
    yield before;
    yield new JsonPart(evaluationOf(event), evaluationResourceSchema);
    before = ",";
  }
  yield `${before === "," ? "" : before}],"next_cursor":${JSON.stringify(next_cursor)}}`;
}

const EVALUATION_LIST = new PagedList("evaluations", /^\d{9}$/);

const listEvaluations = route({
  method: "GET",
  path: "/v1/runs/{id}/evaluations",
  operation: "list_evaluations",
  summary: "The evaluations of a run, newest first, with the outcome of every scenario.",
  query: z.strictObject(EVALUATION_LIST.query),
  answers: {
    200: {
      description: "A page of them.",
      content: {
        "application/json": z.strictObject({
          evaluations: z.array(evaluationResourceSchema),
          next_cursor: nextCursor,
        }).meta({ id: "EvaluationList" }),
      },
    },
  },
  find: findRun,
  async handler({ found, query: { limit, cursor }, services }) {
    const keyOf = ({ name }: EventPlace) => name.padStart(DIGITS, "0");
    const places = await placesOf(found, services);
    const { items, next_cursor } = EVALUATION_LIST.page(places, { limit, cursor, keyOf, falling: true });
    return jsonPieces(200, listJson(eventsPath(found), items, next_cursor));
  },
});

const getEvaluation = route({
  method: "GET",
  path: "/v1/runs/{id}/evaluations/{n}",
  operation: "get_evaluation",
  summary: "An evaluation with the outcome of every scenario.",
  answers: {
    200: { description: "The evaluation.", content: { "application/json": evaluationResourceSchema } },
  },
  async find({ id, n }, services) {
    const run = await findRun({ id }, services);
    const place = (await placesOf(run, services)).find(({ name }) => name === n);
    if (!place) {
      throw notFound("The run has no such evaluation; GET its evaluations for their numbers", "/path/n");
    }
    return { run, place };
  },
  async handler({ found: { run, place } }) {
    const [event] = await Array.fromAsync(readEventsAt(eventsPath(run), "evaluation", [place]));
    return json(200, evaluationOf(event!));
  },
});

export const EVALUATION_ROUTES: readonly Route[] = [listEvaluations, getEvaluation];
