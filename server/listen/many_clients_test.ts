/** Many clients at once on a real listener: none gets a wrong answer, and no follower misses an event. */

import assert from "node:assert/strict";
import { openGate } from "../../runs/fleet/fleet_testing.ts";
import { shownEvents } from "../../tests/shown_events.ts";
import { FLEET_TOKEN, withListeningFleet } from "./listener_testing.ts";

const REQUESTS = 500, PLANS = 50, FOLLOWERS = 200;

for (const bind of ["127.0.0.1:0", "0.0.0.0:0"]) {
  Deno.test({
    name: `${REQUESTS} requests, ${PLANS} plans and ${FOLLOWERS} followers at once at ${bind}`,
    sanitizeOps: true,
    sanitizeResources: true,
    fn: () =>
      withListeningFleet(bind, async ({ test, url, folder }) => {
        const gate = `${folder}/gate`;
        const run = await test.create({ gate, updates: 1 });
        const follow = async () =>
          (await Array.fromAsync(shownEvents(`${url}/runs/${run.id}/events`, 0, FLEET_TOKEN))).map(({ id }) =>
            id
          );
        const following = Array.from({ length: FOLLOWERS }, follow);
        const get = async () =>
          (await (await fetch(`${url}/runs/${run.id}`, { headers: FLEET_TOKEN })).json()).id;
        const plan = async () => {
          const headers = { ...FLEET_TOKEN, "content-type": "application/json" };
          const response = await fetch(`${url}/plan`, { method: "POST", headers, body: '{"recipe":"sft"}' });
          return `${response.status} ${(await response.json()).errors.length}`;
        };
        const alone = await plan();
        assert.match(alone, /^422 [1-9]/);
        const [got, planned] = await Promise.all([
          Promise.all(Array.from({ length: REQUESTS }, get)),
          Promise.all(Array.from({ length: PLANS }, plan)),
        ]);
        assert.deepEqual(new Set(got), new Set([run.id]));
        assert.deepEqual(new Set(planned), new Set([alone]));
        await openGate(gate, 1);
        const seen = await Promise.all(following);
        for (const ids of seen) assert.deepEqual(ids, Array.from({ length: run.last_seq }, (_, i) => i + 1));
      }),
  });
}
