/** The routes of view mode, which show one run from its observe directory and change nothing. */

import { z } from "zod";
import { findRun } from "./resources/find_run.ts";
import { nextCursor, PagedList } from "./http/page.ts";
import { json, type Route, route } from "./routing/route.ts";
import { ROUTES } from "./route_table.ts";
import { runCardSchema, runFilters } from "./resources/run_schema.ts";
import type { ViewSource } from "./resources/view_run.ts";

const JSON_TYPE = "application/json";

/** Its one run is the key. */
const RUN_LIST = new PagedList("runs", /^run_view$/);

/** The table of view mode. Only GET: another method on these paths is 405, any other path 404. */
export function viewRoutes(source: ViewSource): Route[] {
  const listRuns = route({
    method: "GET",
    path: "/v1/runs",
    operation: "list_runs",
    summary: "The one run of view mode.",
    query: z.strictObject({ ...RUN_LIST.query, ...runFilters }),
    answers: {
      200: {
        description: "The run, when it passes the filters.",
        content: { [JSON_TYPE]: z.strictObject({ runs: z.array(runCardSchema), next_cursor: nextCursor }) },
      },
    },
    async handler({ query: { limit, cursor, ...filters } }) {
      const run = await source.card();
      const passes = Object.entries(filters).every(([name, value]) =>
        value === undefined || run[name as keyof typeof filters] === value
      );
      const { items, next_cursor } = RUN_LIST.page(passes ? [run] : [], {
        limit,
        cursor,
        keyOf: ({ id }) => id,
        falling: true,
      });
      return json(200, { runs: items, next_cursor });
    },
  });
  const getRun = route({
    method: "GET",
    path: "/v1/runs/{id}",
    operation: "get_run",
    summary: "The run of view mode.",
    answers: { 200: { description: "The run.", content: { [JSON_TYPE]: runCardSchema } } },
    find: findRun,
    handler: async () => json(200, await source.card()),
  });
  return [...ROUTES.filter(({ in_view_mode }) => in_view_mode), listRuns, getRun];
}
