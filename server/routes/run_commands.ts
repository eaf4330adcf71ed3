/** Commands to runs. */

import { z } from "zod";
import type { FleetCommand } from "../../runs/fleet/commands.ts";
import { askFleet, findManagedRun, fleetOf } from "../resources/fleet_problems.ts";
import { json, type Route, route } from "../routing/route.ts";

const ACCEPTED = {
  202: {
    description: "The command is accepted.",
    content: {
      "application/json": z.strictObject({
        accepted: z.literal(true),
        takes_effect: z.enum(["boundary", "now"]).meta({
          description: "At the next boundary of the run, or at once.",
        }),
      }).meta({ id: "Accepted" }),
    },
  },
} as const;

/** A command without arguments. */
function command(
  path: "/v1/runs/{id}/pause" | "/v1/runs/{id}/resume" | "/v1/runs/{id}/checkpoints",
  { operation, summary, name }: {
    operation: string;
    summary: string;
    name: Exclude<FleetCommand["command"], "cancel" | "set_lr">;
  },
): Route {
  return route({
    ...{ method: "POST", path, operation, summary, find: findManagedRun, answers: ACCEPTED },
    problems: { "conflict": ["conflict"], ...(name === "resume" ? { "device-busy": [] } as const : {}) },
    async handler({ found, services }) {
      const takes_effect = await askFleet(fleetOf(services).command(found.id, { command: name }));
      return json(202, { accepted: true, takes_effect });
    },
  });
}

const cancelSchema = z.strictObject({
  at: z.enum(["boundary", "now"]).default("boundary").meta({
    description: "now discards the update that is being trained; a second one ends the process.",
  }),
  checkpoint: z.boolean().default(false).meta({ description: "Whether to write a checkpoint first." }),
}).meta({ id: "Cancel" });

const cancel = route({
  method: "POST",
  path: "/v1/runs/{id}/cancel",
  operation: "cancel_run",
  summary: "Ends a run, at the next boundary or now.",
  find: findManagedRun,
  body: { content: { "application/json": cancelSchema }, limit: "max_body_bytes", is_optional: true },
  answers: ACCEPTED,
  problems: { "conflict": ["conflict"] },
  async handler({ body, found, services }) {
    const given = body?.value ?? cancelSchema.parse({});
    const takes_effect = await askFleet(fleetOf(services).command(found.id, { command: "cancel", ...given }));
    return json(202, { accepted: true, takes_effect });
  },
});

export const RUN_COMMAND_ROUTES: readonly Route[] = [
  command("/v1/runs/{id}/pause", {
    ...{ operation: "pause_run", name: "pause" },
    summary: "Pauses at the next boundary, with a checkpoint.",
  }),
  command("/v1/runs/{id}/resume", {
    ...{ operation: "resume_run", name: "resume" },
    summary: "Goes on from the newest checkpoint.",
  }),
  cancel,
  command("/v1/runs/{id}/checkpoints", {
    ...{ operation: "create_checkpoint", name: "checkpoint" },
    summary: "Writes a checkpoint at the next boundary.",
  }),
];
