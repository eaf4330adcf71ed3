/** Creates a run from a request, once for an idempotency key. */

import { createHash } from "node:crypto";
import { ServiceError } from "../../core/errors.ts";
import type { ManagedRun } from "../../runs/fleet/managed_run.ts";
import { askFleet, fleetOf } from "../resources/fleet_problems.ts";
import { runDocument } from "../resources/run_document.ts";
import type { RunCard } from "../resources/run_schema.ts";
import { isKept, keepAnswer, type KeptAnswer, keptAnswer } from "../store/kept_answers.ts";
import { conflict } from "../http/problems.ts";
import type { Services } from "../routing/services.ts";
import type { ConfigRequest } from "./config_request.ts";
import { holdDatasets, planRunRequest } from "./plan_run.ts";

/** The most plans of one fork. It is planned again when its parent has lost the checkpoint during the plan. */
const MAX_PLANS = 3;

interface Created {
  /** For a repeated request: the present document of the run, or the first one when the run is deleted. */
  document: RunCard;
  is_new: boolean;
}

/** Requests with a key that are being answered: a second one waits for the first. */
const pending = new WeakMap<object, Map<string, Promise<unknown>>>();

/**
 * Plans and creates a run.
 *
 * @throws {Problem} Like {@link planRunRequest}; `device-busy` without a slot; `conflict` for a key of another body.
 */
export async function createRun(
  asked: ConfigRequest,
  { services, request }: { services: Services; request: Request },
): Promise<Created> {
  const fleet = fleetOf(services), key = request.headers.get("idempotency-key");
  if (key === null) {
    const run = await planned(asked, { services, request, idempotency: null });
    return { document: runDocument(run), is_new: true };
  }
  const hash = createHash("sha256").update(asked.source()).digest("hex"), now_ms = services.clock.wall_ms();
  let keys = pending.get(fleet);
  if (!keys) pending.set(fleet, keys = new Map());
  while (keys.has(key)) await keys.get(key)!.catch(() => {});
  const work = (async () => {
    const found = earlierAnswer(key, services);
    if (!found) {
      const idempotency = { key, body_sha256: hash, created_ms: now_ms };
      const run = await planned(asked, { services, request, idempotency }), document = runDocument(run);
      keepAnswerOf(run, services);
      return { document, is_new: true };
    }
    if (found.body_sha256 !== hash) {
      throw conflict(`The Idempotency-Key ${key} belongs to a request with another body`);
    }
    const run = fleet.get(found.run);
    return { document: run ? runDocument(run) : JSON.parse(found.answer), is_new: false };
  })();
  keys.set(key, work);
  try {
    return await work;
  } finally {
    keys.delete(key);
  }
}

type AnswerServices = Pick<Services, "database" | "clock">;

/** The answer to an earlier request with a key. A server that was killed may have stored the key only with the run. */
function earlierAnswer(key: string, services: Services): KeptAnswer | null {
  const now_ms = services.clock.wall_ms(), kept = keptAnswer(services.database, key, now_ms);
  const run = kept ? null : fleetOf(services).list().find(({ service }) => service.idempotency?.key === key);
  return kept ?? (run ? answerOf(run, now_ms) : null);
}

/** The answer to repeated requests with a run's key; null for a run without a key, or with an old one. */
function answerOf(run: ManagedRun, now_ms: number): KeptAnswer | null {
  const { idempotency } = run.service;
  if (idempotency === null || !isKept(idempotency, now_ms)) return null;
  return { ...idempotency, run: run.id, answer: JSON.stringify(runDocument(run)) };
}

/** Keeps the answer for a run's key, which outlives the run. */
export function keepAnswerOf(run: ManagedRun, { database, clock }: AnswerServices): void {
  const now_ms = clock.wall_ms(), answer = answerOf(run, now_ms);
  if (answer) keepAnswer(database, answer, now_ms);
}

interface PlannedOptions {
  services: Services;
  request: Request;
  idempotency: ManagedRun["service"]["idempotency"];
}

/** Plans and creates a run. When a fork's parent loses the checkpoint in between, the fork is planned again. */
async function planned(asked: ConfigRequest, options: PlannedOptions): Promise<ManagedRun> {
  for (let tries = 1; tries <= MAX_PLANS; tries++) {
    try {
      return await planOnce(asked, options);
    } catch (error) {
      if (!(error instanceof ServiceError) || error.details.lost_parent === undefined) throw error;
    }
  }
  throw conflict(
    "The parent's checkpoints are removed before they can be copied; try again when it has ended",
  );
}

async function planOnce(
  asked: ConfigRequest,
  { services, request: { signal }, idempotency }: PlannedOptions,
): Promise<ManagedRun> {
  using _held = holdDatasets(asked, services);
  const fleet = fleetOf(services);
  const { planned: { plan }, name, algorithm, processConfig, fork } = await planRunRequest(asked, {
    services,
    signal,
  });
  signal.throwIfAborted();
  return await askFleet(fleet.create({
    ...{ name, notes: "", tags: [], plan, algorithm, processConfig, idempotency },
    parent: fork && fork.parent,
  }));
}
