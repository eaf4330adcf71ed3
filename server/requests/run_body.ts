/** The body and the headers of `POST /v1/plan` and `POST /v1/runs`. */

import { z } from "zod";
import type { BodySpec } from "../routing/route.ts";
import { readJsonRequest, readTomlRequest } from "./config_request.ts";
import { parentKeys } from "./fork_request.ts";
import { completeSchema, forkSchema, recipeSchema } from "./run_request.ts";

/** The body of both routes; handlers get it as a request with a checked form. */
export const RUN_BODY = {
  content: {
    "application/json": z.union([recipeSchema, completeSchema, forkSchema]),
    "application/toml": z.string().meta({
      description: "A complete configuration; `name` and `fork_from` stand before its sections.",
    }),
  },
  limit: "max_body_bytes",
  read({ content_type, value }, services) {
    const { request, errors } = content_type === "application/toml"
      ? readTomlRequest(value as string)
      : readJsonRequest(value, (run) => parentKeys(run, services));
    return { body: request, errors };
  },
} as const satisfies BodySpec;

/** The header that makes a repeated request safe. */
export const IDEMPOTENCY_KEY = {
  "Idempotency-Key": z.string().regex(/^[!-~]{1,255}$/, { error: "must have 1 to 255 printable characters" })
    .optional().meta({
      description: "A repeated request with the same key gets the first one's run, for 24 hours.",
    }),
};
