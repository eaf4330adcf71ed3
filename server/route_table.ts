/** The table of all routes, in the order of the contract. */

import type { Route } from "./routing/route.ts";
import { ARTIFACT_ROUTES } from "./routes/artifacts.ts";
import { CAPABILITIES_ROUTES } from "./routes/capabilities.ts";
import { CATALOGUE_ROUTES } from "./routes/catalogue.ts";
import { CHECKPOINT_ROUTES } from "./routes/checkpoints.ts";
import { COMPARE_ROUTES } from "./routes/compare.ts";
import { DATASET_ROUTES } from "./routes/datasets.ts";
import { DEFAULTS_ROUTES } from "./routes/defaults.ts";
import { EVALUATION_ROUTES } from "./routes/evaluations.ts";
import { EVENT_ROUTES } from "./routes/events.ts";
import { HEALTH_ROUTES } from "./routes/health.ts";
import { MODEL_FILE_ROUTES } from "./routes/model_files.ts";
import { METRIC_ROUTES } from "./routes/metrics.ts";
import { OPENAPI_ROUTES } from "./routes/openapi.ts";
import { PLAN_ROUTES } from "./routes/plans.ts";
import { PROBLEM_PAGE_ROUTES } from "./routes/problem_pages.ts";
import { PROMETHEUS_ROUTES } from "./routes/prometheus.ts";
import { RUN_COMMAND_ROUTES } from "./routes/run_commands.ts";
import { RUN_HEALTH_ROUTES } from "./routes/run_health.ts";
import { SCENARIO_ROUTES } from "./routes/run_scenarios.ts";
import { RUN_REQUEST_ROUTES } from "./routes/run_requests.ts";
import { RUN_ROUTES } from "./routes/runs.ts";
import { SERVING_ROUTES } from "./routes/serving.ts";
import { TRAJECTORY_ROUTES } from "./routes/trajectories.ts";

/** All routes of the contract, in order. */
export const ROUTES: readonly Route[] = [
  ...HEALTH_ROUTES,
  ...CAPABILITIES_ROUTES,
  ...OPENAPI_ROUTES,
  ...DEFAULTS_ROUTES,
  ...PLAN_ROUTES,
  ...RUN_ROUTES,
  ...RUN_COMMAND_ROUTES,
  ...RUN_REQUEST_ROUTES,
  ...EVALUATION_ROUTES,
  ...RUN_HEALTH_ROUTES,
  ...SCENARIO_ROUTES,
  ...COMPARE_ROUTES,
  ...CHECKPOINT_ROUTES,
  ...EVENT_ROUTES,
  ...METRIC_ROUTES,
  ...TRAJECTORY_ROUTES,
  ...ARTIFACT_ROUTES,
  ...DATASET_ROUTES,
  ...CATALOGUE_ROUTES,
  ...MODEL_FILE_ROUTES,
  ...SERVING_ROUTES,
  ...PROMETHEUS_ROUTES,
  ...PROBLEM_PAGE_ROUTES,
];
