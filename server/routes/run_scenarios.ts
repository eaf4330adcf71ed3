/** The scenarios of runs, from their exported trajectories. */

import { z } from "zod";
import { scenarioGroups, scenariosOf, scenarioView } from "../../runs/views/scenarios.ts";
import { scenarioGroupSchema, scenarioSchema } from "../../runs/views/shapes.ts";
import { findTrajectories } from "../resources/find_trajectories.ts";
import { ANY_KEYS, nextCursor, PagedList } from "../http/page.ts";
import { notFound } from "../http/problems.ts";
import { json, type Route, route } from "../routing/route.ts";
import { skippedLines } from "../resources/trajectory_fields.ts";

const JSON_TYPE = "application/json";

const SCENARIO_LIST = new PagedList("scenarios", ANY_KEYS);

const listScenarios = route({
  method: "GET",
  path: "/v1/runs/{id}/scenarios",
  operation: "list_run_scenarios",
  summary: "The scenarios of a run with their pass rate by update.",
  in_view_mode: true,
  query: z.strictObject(SCENARIO_LIST.query),
  answers: {
    200: {
      description: "The scenarios in the order of their file; none when the run exports no trajectories.",
      content: {
        [JSON_TYPE]: z.strictObject({
          scenarios: z.array(scenarioSchema),
          next_cursor: nextCursor,
          skipped_lines: skippedLines,
        }),
      },
    },
  },
  find: findTrajectories,
  async handler({ found, query }) {
    const index = await found?.index() ?? { updates: [], skipped_lines: 0 };
    const { items, next_cursor } = SCENARIO_LIST.page(await scenariosOf(index), {
      ...query,
      keyOf: ({ scenario }) => scenario,
    });
    return json(200, { scenarios: items.map(scenarioView), next_cursor, skipped_lines: index.skipped_lines });
  },
});

const GROUP_LIST = new PagedList("scenario_groups", ANY_KEYS);

const getScenario = route({
  method: "GET",
  path: "/v1/runs/{id}/scenarios/{scenario}",
  operation: "get_run_scenario",
  summary: "A scenario with its groups over updates.",
  in_view_mode: true,
  query: z.strictObject(GROUP_LIST.query),
  answers: {
    200: {
      description: "Its groups in the order of updates.",
      content: {
        [JSON_TYPE]: scenarioSchema.omit({ updates: true }).extend({
          groups: z.array(scenarioGroupSchema),
          next_cursor: nextCursor,
          skipped_lines: skippedLines,
        }).meta({ id: "RunScenarioGroups" }),
      },
    },
  },
  async find(params, services) {
    const run = await findTrajectories(params, services);
    const index = await run?.index();
    const [found] = index ? await scenariosOf(index, params.scenario) : [];
    if (!index || !found) throw notFound("The run has no trajectories of such a scenario", "/path/scenario");
    return { index, found: scenarioView(found) };
  },
  handler({ found: { index, found: { updates: _, ...scenario } }, query }) {
    const groups = scenarioGroups(index, scenario.scenario);
    const keyOf = ({ update, group }: typeof groups[number]) => `${update}.${group}`;
    const { items, next_cursor } = GROUP_LIST.page(groups, { ...query, keyOf });
    return json(200, { ...scenario, groups: items, next_cursor, skipped_lines: index.skipped_lines });
  },
});

export const SCENARIO_ROUTES: readonly Route[] = [listScenarios, getScenario];
