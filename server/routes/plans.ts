/** Plans of runs. */

import { notBuilt, type Route } from "../route.ts";

export const PLAN_ROUTES: readonly Route[] = [
  notBuilt({
    method: "POST",
    path: "/v1/plan",
    operation: "create_plan",
    summary: "Plans a recipe, a configuration or a fork; nothing is created.",
  }),
];
