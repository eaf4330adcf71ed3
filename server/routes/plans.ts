/** Plans of runs. */

import { z } from "zod";
import { calibratePlan } from "../requests/calibrate_plan.ts";
import { holdDatasets, planRunRequest } from "../requests/plan_run.ts";
import { RUN_BODY } from "../requests/run_body.ts";
import { RUN_PROBLEMS } from "../requests/run_request.ts";
import { type PlanCard, planSchema } from "../resources/plan_schema.ts";
import { json, type Route, route } from "../routing/route.ts";

const createPlan = route({
  method: "POST",
  path: "/v1/plan",
  operation: "create_plan",
  summary: "Plans a recipe, a configuration or a fork; nothing is created.",
  body: RUN_BODY,
  answers: { 200: { description: "The plan.", content: { "application/json": planSchema } } },
  problems: { ...RUN_PROBLEMS, "device-busy": [], "timeout": [] },
  query: z.object({
    calibrate: z.enum(["true", "false"]).default("false").meta({
      description: "true measures an update on the device, in place of estimates of memory and time.",
    }),
  }),
  async handler({ body, query, services, request: { signal } }) {
    using _held = holdDatasets(body, services);
    const run = await planRunRequest(body, { services, signal });
    const plan = query.calibrate === "true"
      ? await calibratePlan(run, { services, signal })
      : run.planned.plan;
    return json(200, plan as unknown as PlanCard);
  },
});

export const PLAN_ROUTES: readonly Route[] = [createPlan];
