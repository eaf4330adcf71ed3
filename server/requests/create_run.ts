/** Creates a run from a request, once for an idempotency key. */

import { createHash } from "node:crypto";
import type { KeptRun } from "../../runs/fleet/kept_run.ts";
import { readText } from "../routing/body.ts";
import { askFleet, fleetOf } from "../resources/fleet_problems.ts";
import { conflict, invalidRequest } from "../http/problems.ts";
import type { Services } from "../routing/services.ts";
import type { RunRequestBody } from "./config_request.ts";
import { planRun } from "./plan_run.ts";

/** How long an idempotency key stands for its run. */
const KEPT_HOURS = 24;

const KEY = /^[!-~]{1,255}$/;

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
  body: RunRequestBody,
  { services, request }: { services: Services; request: Request },
): Promise<Created> {
  const fleet = fleetOf(services), key = request.headers.get("idempotency-key");
  if (key === null) {
    return { run: await planned(body, { services, request, idempotency: null }), is_new: true };
  }
  if (!KEY.test(key)) {
    const message = "the header Idempotency-Key must have 1 to 255 printable characters";
    throw invalidRequest([{ pointer: "", code: "invalid_value", message }]);
  }
  const { body: kept, hash } = await hashed(body), now_ms = services.clock.wall_ms();
  let keys = pending.get(fleet);
  if (!keys) pending.set(fleet, keys = new Map());
  while (keys.has(key)) await keys.get(key)!.catch(() => {});
  const work = (async () => {
    const found = fleet.list().find(({ service }) =>
      service.idempotency?.key === key && isKept(service.idempotency, now_ms)
    );
    if (!found) {
      const idempotency = { key, body_sha256: hash, created_ms: now_ms };
      return { run: await planned(kept, { services, request, idempotency }), is_new: true };
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

/** The body's hash, and the body to go on with: a stream can be read once only. */
async function hashed(body: RunRequestBody): Promise<{ body: RunRequestBody; hash: string }> {
  const text = body.content_type === "application/toml"
    ? await readText(body.stream)
    : JSON.stringify(body.value);
  const hash = createHash("sha256").update(`${body.content_type}\n${text}`).digest("hex");
  if (body.content_type === "application/json") return { body, hash };
  return { body: { ...body, stream: new Blob([text]).stream() }, hash };
}

async function planned(
  body: RunRequestBody,
  { services, request, idempotency }: {
    services: Services;
    request: Request;
    idempotency: KeptRun["service"]["idempotency"];
  },
): Promise<KeptRun> {
  const fleet = fleetOf(services);
  const { planned: { plan }, name, algorithm, processConfig, fork } = await planRun(body, {
    services,
    signal: request.signal,
  });
  request.signal.throwIfAborted();
  return await askFleet(fleet.create({
    ...{ name, notes: "", tags: [], plan, algorithm, processConfig, idempotency },
    parent: fork && fork.parent,
  }));
}
