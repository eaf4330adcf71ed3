import assert from "node:assert/strict";
import type { Clock } from "../../core/clock.ts";
import { withFolder } from "../../tests/folder.ts";
import { type MemberPlace, ObservedRun } from "./observed_run.ts";
import { STILL_CLOCK, writeObserved } from "./observed_testing.ts";
import { type SearchFilter, type SearchLimits, searchMembers } from "./search.ts";
import { LineTables } from "./update_lines.ts";

/** A clock on which every reading takes 10 ms. */
function tickingClock(): Clock {
  let now = 0;
  return { ...STILL_CLOCK, monotonic_ms: () => now += 10 };
}

interface Searched {
  filter: SearchFilter;
  limits: SearchLimits;
  limit?: number;
}

/** Searches until nothing is left. */
async function searchAll(run: ObservedRun, { filter, limits, limit = 50 }: Searched) {
  let from: MemberPlace | null = { update: 0, group: 0, member: 0 };
  const found: string[] = [], stops: string[] = [];
  while (from) {
    const result = await searchMembers(run, { filter, from, limit, limits, clock: tickingClock() });
    assert.ok(result.members.length <= limit);
    found.push(...result.members.map(({ update, group, member }) => `${update}/${group}/${member}`));
    from = result.next;
    if (from) stops.push(`${from.update}/${from.group}/${from.member}`);
  }
  return { found, stops };
}

const ENDLESS = { bytes: Infinity, ms: Infinity };

Deno.test({
  name: "searches that stop at any limit go on where they stopped, and find the same together",
  sanitizeOps: true,
  sanitizeResources: true,
  fn: () =>
    withFolder(async (directory) => {
      await writeObserved(directory, { updates: 3 });
      const run = new ObservedRun(directory, new LineTables());
      for (const filter of [{}, { text: "turn" }, { text: "done" }, { stop_reason: "completed" as const }]) {
        const whole = await searchAll(run, { filter, limits: ENDLESS });
        assert.deepEqual(whole.stops, []);
        for (const limits of [{ bytes: 1, ms: Infinity }, { bytes: Infinity, ms: 1 }]) {
          for (const limit of [1, 50]) {
            const parts = await searchAll(run, { filter, limits, limit });
            assert.deepEqual(parts.found, whole.found, JSON.stringify({ filter, limits, limit }));
            assert.ok(parts.stops.length > 3, "it stops within an update");
            assert.equal(new Set(parts.stops).size, parts.stops.length, "every search gets on");
          }
        }
        assert.deepEqual((await searchAll(run, { filter, limits: ENDLESS, limit: 2 })).found, whole.found);
      }
    }),
});
