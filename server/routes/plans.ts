/** Plans of runs. */

import { z } from "zod";
import { type PlanCard, planSchema } from "../resources/plan_schema.ts";
import { planRun } from "../requests/plan_run.ts";
import { RUN_BODY } from "../requests/run_body.ts";
import { RUN_PROBLEMS } from "../requests/run_request.ts";
import { json, type Route, route } from "../routing/route.ts";

const createPlan = route({
  method: "POST",
  path: "/v1/plan",
  operation: "create_plan",
  summary: "Plans a recipe, a configuration or a fork; nothing is created.",
  body: RUN_BODY,
  answers: { 200: { description: "The plan.", content: { "application/json": planSchema } } },
  problems: RUN_PROBLEMS,
  query: z.object({}),
  async handler({ body, services, request }) {
    const { planned } = await planRun(body, { services, signal: request.signal });
    return json(200, planned.plan as unknown as PlanCard);
  },
});

export const PLAN_ROUTES: readonly Route[] = [createPlan];
