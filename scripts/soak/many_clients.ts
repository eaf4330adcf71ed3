/**
 * Many clients in a process of its own, so that their work is not the server's: `many_clients.ts <url> <run> <gets>
 * <plans> <followers>`. The followers come first and stay while the others ask; it prints what they found as JSON.
 */

import { shownEvents } from "../../tests/shown_events.ts";
import { percentile, rounded } from "./part.ts";

export interface ManyResult {
  wrong: number;
  get_ms: { p50: number; p99: number; max: number };
  plan_ms: { p50: number; p99: number; max: number };
  followers: number;
  /** Followers that missed an event, got one twice, or were cut off. */
  wrong_followers: number;
  spread: string[];
}

const shares = (values: readonly number[]) => {
  const [p50, p99, max] = [0.5, 0.99, 1].map((share) => rounded(percentile(values, share))) as [
    number,
    number,
    number,
  ];
  return { p50, p99, max };
};

interface Asked {
  took: number[];
  wrong: string[];
}

/** Sends a request so often at once. */
async function atOnce(count: number, request: () => Promise<string | null>): Promise<Asked> {
  const took: number[] = [], wrong: string[] = [];
  await Promise.all(Array.from({ length: count }, async () => {
    const started = performance.now();
    const problem = await request().catch((error: Error) => error.message);
    took.push(performance.now() - started);
    if (problem !== null) wrong.push(problem);
  }));
  return { took, wrong };
}

/** Follows a run up to an event that is known later. @returns Whether every event came once. */
async function follow(url: string, until: () => number, opened: () => void): Promise<boolean> {
  let last = 0;
  for await (const { id } of shownEvents(url, 0)) {
    if (last === 0) opened();
    if (id !== last + 1) return false;
    if (++last >= until()) return true;
  }
  return false;
}

/** The number of the last event of a run. */
async function lastEvent(path: string): Promise<number> {
  return (await (await fetch(`${path}/artifacts/events`)).text()).trimEnd().split("\n").length;
}

async function main([url, run, gets, plans, followers]: string[]): Promise<ManyResult> {
  const path = `${url}/v1/runs/${run}`, body = Deno.env.get("SOAK_PLAN")!, count = Number(followers);
  let open = 0, until = Infinity;
  const all_open = Promise.withResolvers<void>();
  const following = Promise.all(
    Array.from({ length: count }, async () => {
      let is_open = false;
      const opened = () => {
        if (!is_open && ++open === count) all_open.resolve();
        is_open = true;
      };
      const is_right = await follow(`${path}/events`, () => until, opened).catch(() => false);
      // One that could not follow keeps nobody waiting.
      opened();
      return is_right;
    }),
  );
  if (count > 0) await all_open.promise;
  const [get, plan] = await Promise.all([
    atOnce(Number(gets), async () => {
      const response = await fetch(path), { id } = await response.json();
      return id === run ? null : `GET: ${response.status}`;
    }),
    atOnce(Number(plans), async () => {
      const headers = { "content-type": "application/json" };
      const response = await fetch(`${url}/v1/plan`, { method: "POST", headers, body });
      const { memory } = await response.json();
      return memory?.peak_bytes > 0 ? null : `POST /plan: ${response.status}`;
    }),
  ]);
  until = await lastEvent(path) + 3;
  const right = (await following).filter((is_right) => is_right).length,
    wrong = [...get.wrong, ...plan.wrong];
  return {
    wrong: wrong.length,
    get_ms: shares(get.took),
    plan_ms: shares(plan.took),
    followers: count,
    wrong_followers: count - right,
    spread: [...new Set(wrong)].slice(0, 5),
  };
}

console.log(JSON.stringify(await main(Deno.args)));
