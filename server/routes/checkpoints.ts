/** Checkpoints of a run. */

import { z } from "zod";
import { checkpointUpdate, listCheckpoints } from "../../runs/directory/checkpoint.ts";
import {
  bestEvaluated,
  cardOfEvent,
  cardOfFolder,
  type CheckpointCard,
} from "../../runs/results/checkpoints.ts";
import { readEventsAt } from "../../runs/results/run_log.ts";
import { evaluatedUpdates } from "../resources/evaluated.ts";
import { findRun } from "../resources/find_run.ts";
import { nextCursor, PagedList } from "../http/page.ts";
import { json, type Route, route } from "../routing/route.ts";
import { eventsPath, followRun } from "../resources/run_logs.ts";
import type { StoredRun } from "../sources/run_source.ts";
import type { Services } from "../routing/services.ts";
import { eventPlaces } from "../store/event_places.ts";

const checkpointSchema = z.strictObject({
  name: z.string(),
  update: z.int().gte(0),
  step: z.int().gte(0),
  created_at: z.string().meta({ format: "date-time" }),
  size_bytes: z.int().gte(0),
  metrics: z.record(z.string(), z.number()).meta({ description: "Those of its update." }),
  best: z.boolean().meta({ description: "Whether its evaluation is the best of these checkpoints." }),
}).meta({ id: "Checkpoint" });

/** The cards of checkpoints, in the order of their names. Damaged ones are left out. */
async function cardsOf(
  run: StoredRun,
  { names, best }: { names: readonly string[]; best: string | null },
  { database }: Services,
): Promise<CheckpointCard[]> {
  const places = eventPlaces(database, run.record.id, "checkpoint").filter(({ name }) =>
    names.includes(name)
  );
  const cards = new Map<string, CheckpointCard>();
  for await (const event of readEventsAt(eventsPath(run), "checkpoint", places)) {
    cards.set(event.name, cardOfEvent(event, event.name === best));
  }
  const all = await Promise.all(
    names.map((name) => cards.get(name) ?? cardOfFolder(`${run.checkpoints}/${name}`, name, name === best)),
  );
  return all.filter((card) => card !== null);
}

const CHECKPOINT_LIST = new PagedList("checkpoints", /^\d{16}$/);

const listRunCheckpoints = route({
  method: "GET",
  path: "/v1/runs/{id}/checkpoints",
  operation: "list_checkpoints",
  summary: "The checkpoints of a run, newest first.",
  query: z.strictObject(CHECKPOINT_LIST.query),
  answers: {
    200: {
      description: "A page of them.",
      content: {
        "application/json": z.strictObject({
          checkpoints: z.array(checkpointSchema),
          next_cursor: nextCursor,
        }).meta({ id: "CheckpointList" }),
      },
    },
  },
  find: findRun,
  async handler({ found, query: { limit, cursor }, services }) {
    const id = await followRun(found, services);
    const all = found.checkpoints === null ? [] : await listCheckpoints(found.checkpoints);
    const updates = all.map((name) => ({ name, update: checkpointUpdate(name) }));
    const best = bestEvaluated(updates, await evaluatedUpdates(services.database, id));
    // All digits, so that keys fall as texts.
    const keyOf = (name: string) => String(checkpointUpdate(name)).padStart(16, "0");
    const { items, next_cursor } = CHECKPOINT_LIST.page(all.reverse(), {
      limit,
      cursor,
      keyOf,
      falling: true,
    });
    return json(200, { checkpoints: await cardsOf(found, { names: items, best }, services), next_cursor });
  },
});

export const CHECKPOINT_ROUTES: readonly Route[] = [listRunCheckpoints];
