/** Evaluations and generations on request, by a live run or by a process of their own. */

import type { EvaluationResult } from "../../runs/algorithms/algorithm.ts";
import { findManagedRun } from "../resources/fleet_problems.ts";
import {
  askRun,
  evaluateRequest,
  evaluateSchema,
  evaluationResult,
  evaluationResultSchema,
  generateRequest,
  generateSchema,
  type GenerationAnswer,
  generationSchema,
} from "../resources/run_requests.ts";
import { json, type Route, route } from "../routing/route.ts";

const PROBLEMS = {
  "insufficient-memory": ["out_of_range"],
  "conflict": ["conflict"],
  "device-busy": [],
  "timeout": [],
} as const;

const evaluate = route({
  method: "POST",
  path: "/v1/runs/{id}/evaluate",
  operation: "evaluate_run",
  summary: "Measures a run on its held-out data now.",
  find: findManagedRun,
  body: {
    content: { "application/json": evaluateSchema },
    limit: "max_body_bytes",
    is_optional: true,
  },
  answers: {
    200: { description: "The result.", content: { "application/json": evaluationResultSchema } },
  },
  problems: PROBLEMS,
  async handler({ body, found, services, request }) {
    const value = body?.value ?? evaluateSchema.parse({});
    const result = await askRun(found, evaluateRequest(value), { services, request });
    return json(200, evaluationResult(result as EvaluationResult, value.checkpoint ?? null));
  },
});

const generate = route({
  method: "POST",
  path: "/v1/runs/{id}/generate",
  operation: "generate_with_run",
  summary: "Lets the policy of a run answer messages.",
  find: findManagedRun,
  body: { content: { "application/json": generateSchema }, limit: "max_body_bytes" },
  answers: {
    200: { description: "One assistant turn.", content: { "application/json": generationSchema } },
  },
  problems: PROBLEMS,
  async handler({ body, found, services, request }) {
    return json(
      200,
      await askRun(found, generateRequest(body.value), { services, request }) as GenerationAnswer,
    );
  },
});

export const RUN_REQUEST_ROUTES: readonly Route[] = [evaluate, generate];
