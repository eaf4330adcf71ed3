/** Creates a run from a request, once for an idempotency key. */

import { createHash } from "node:crypto";
import type { KeptRun } from "../../runs/fleet/kept_run.ts";
import { askFleet, fleetOf } from "../resources/fleet_problems.ts";
import { conflict } from "../http/problems.ts";
import type { Services } from "../routing/services.ts";
import type { ConfigRequest } from "./config_request.ts";
import { planRun } from "./plan_run.ts";

/** How long an idempotency key stands for its run. */
const KEPT_HOURS = 24;

interface Created {
  run: KeptRun;
  is_new: boolean;
}

/** Requests with a key that are being answered: a second one waits for the first. */
const pending = new WeakMap<object, Map<string, Promise<unknown>>>();

/**
 * Plans and creates a run.
 *
 * @throws {Problem} Like {@link planRun}; `device-busy` without a slot; `conflict` for a key of another body.
 */
export async function createRun(
  asked: ConfigRequest,
  { services, request }: { services: Services; request: Request },
): Promise<Created> {
  const fleet = fleetOf(services), key = request.headers.get("idempotency-key");
  if (key === null) {
    return { run: await planned(asked, { services, request, idempotency: null }), is_new: true };
  }
  const hash = createHash("sha256").update(asked.source).digest("hex"), now_ms = services.clock.wall_ms();
  let keys = pending.get(fleet);
  if (!keys) pending.set(fleet, keys = new Map());
  while (keys.has(key)) await keys.get(key)!.catch(() => {});
  const work = (async () => {
    const found = fleet.list().find(({ service }) =>
      service.idempotency?.key === key && isKept(service.idempotency, now_ms)
    );
    if (!found) {
      const idempotency = { key, body_sha256: hash, created_ms: now_ms };
      return { run: await planned(asked, { services, request, idempotency }), is_new: true };
    }
    if (found.service.idempotency!.body_sha256 === hash) return { run: found, is_new: false };
    throw conflict(`The Idempotency-Key ${key} belongs to a request with another body`);
  })();
  keys.set(key, work);
  try {
    return await work;
  } finally {
    keys.delete(key);
  }
}

function isKept({ created_ms }: { created_ms: number }, now_ms: number): boolean {
  return now_ms - created_ms < KEPT_HOURS * 3_600_000;
}

async function planned(
  asked: ConfigRequest,
  { services, request, idempotency }: {
    services: Services;
    request: Request;
    idempotency: KeptRun["service"]["idempotency"];
  },
): Promise<KeptRun> {
  const fleet = fleetOf(services);
  const { planned: { plan }, name, algorithm, processConfig, fork } = await planRun(asked, {
    services,
    signal: request.signal,
  });
  request.signal.throwIfAborted();
  return await askFleet(fleet.create({
    ...{ name, notes: "", tags: [], plan, algorithm, processConfig, idempotency },
    parent: fork && fork.parent,
  }));
}
