/** OpenAI-compatible serving of runs. */

import { notBuilt, type Route } from "../routing/route.ts";

export const SERVING_ROUTES: readonly Route[] = [
  notBuilt({
    method: "GET",
    path: "/v1/models",
    operation: "list_models",
    summary: "Runs and checkpoints that can be served.",
  }),
  notBuilt({
    method: "POST",
    path: "/v1/chat/completions",
    operation: "create_chat_completion",
    summary: "Answers messages with a run, a checkpoint or a base model.",
  }),
];
