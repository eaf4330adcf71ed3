/** Finds the trajectories that a path names. */

import { type ObservedRun, updateEntry } from "../../runs/views/observed_run.ts";
import { findRun } from "./find_run.ts";
import { notFound } from "../http/problems.ts";
import type { Services } from "../routing/services.ts";

/** An update whose trajectories a run exported. */
export interface FoundUpdate {
  run: ObservedRun;
  update: number;
}

/** A group of such an update. */
export interface FoundGroup extends FoundUpdate {
  group: number;
  /** Its members, by number. */
  members: readonly number[];
}

/** A number as it stands in a path; null for any other text. */
function numberOf(text: string): number | null {
  return /^(0|[1-9]\d{0,8})$/.test(text) ? Number(text) : null;
}

/** The trajectories of a run; null when it exports none. @throws {Problem} `not-found`. */
export async function findTrajectories(
  params: { id: string },
  services: Services,
): Promise<ObservedRun | null> {
  const { trajectories } = await findRun(params, services);
  return trajectories === null ? null : services.trajectories.in(trajectories);
}

/** @throws {Problem} `not-found`. */
export async function findUpdate(
  params: { id: string; update: string },
  services: Services,
): Promise<FoundUpdate> {
  const run = await findTrajectories(params, services);
  const update = numberOf(params.update);
  if (!run || update === null || !updateEntry(await run.index(), update)) {
    throw notFound("The run has no trajectories of this update", "/path/update");
  }
  return { run, update };
}

/** @throws {Problem} `not-found`. */
export async function findGroup(
  params: { id: string; update: string; group: string },
  services: Services,
): Promise<FoundGroup> {
  const { run, update } = await findUpdate(params, services);
  const group = numberOf(params.group);
  const facts = group === null ? null : await run.facts({ update, group });
  if (group === null || !facts) throw notFound("The update has no such group", "/path/group");
  return { run, update, group, members: facts.members.map(({ member }) => member) };
}

/** @throws {Problem} `not-found`. */
export async function findMember(
  params: { id: string; update: string; group: string; member: string },
  services: Services,
): Promise<FoundGroup & { member: number }> {
  const found = await findGroup(params, services);
  const member = numberOf(params.member);
  if (member === null || !found.members.includes(member)) {
    throw notFound("The group has no such member", "/path/member");
  }
  return { ...found, member };
}

/** The refusal of a request for tokens that are not stored. */
export function noTokens(): Error {
  return notFound("The texts and tokens of this update are not kept", "/path/update");
}
