/** Health checks. */

import { z } from "zod";
import { VERSION } from "../../core/version.ts";
import { FOREIGN_HOST, json, type Route, route } from "../routing/route.ts";

/** Outside the API, for probes without a token. */
const healthz = route({
  method: "GET",
  path: "/healthz",
  operation: "probe_health",
  summary: "Whether the server answers; needs no token.",
  answers: {
    200: {
      description: "The server answers.",
      content: { "application/json": z.strictObject({ status: z.literal("ok") }) },
    },
    401: FOREIGN_HOST,
  },
  handler: () => json(200, { status: "ok" }),
});

const health = route({
  method: "GET",
  path: "/v1/health",
  operation: "get_health",
  summary: "Version and uptime.",
  answers: {
    200: {
      description: "The server answers.",
      content: {
        "application/json": z.strictObject({
          status: z.literal("ok"),
          version: z.string(),
          uptime_seconds: z.int().gte(0),
        }).meta({ id: "Health" }),
      },
    },
  },
  handler: ({ services }) =>
    json(200, { status: "ok", version: VERSION, uptime_seconds: services.uptimeSeconds() }),
});

export const HEALTH_ROUTES: readonly Route[] = [healthz, health];
