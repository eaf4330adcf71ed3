/** Many clients at once on a real listener: none gets a wrong answer, and no follower misses an event. */

import assert from "node:assert/strict";
import { parseServerConfig } from "../../config/server/load.ts";
import { openGate, TestFleet } from "../../runs/fleet/fleet_testing.ts";
import { withFolder } from "../../tests/folder.ts";
import { shownEvents } from "../../tests/shown_events.ts";
import { listen } from "./listen.ts";

const REQUESTS = 500, PLANS = 50, FOLLOWERS = 200;
const TOKEN = { authorization: "Bearer secret" };

for (const bind of ["127.0.0.1:0", "0.0.0.0:0"]) {
  Deno.test({
    name: `${REQUESTS} requests, ${PLANS} plans and ${FOLLOWERS} followers at once at ${bind}`,
    sanitizeOps: true,
    sanitizeResources: true,
    fn: () =>
      withFolder(async (folder) => {
        const config = parseServerConfig(`bind = "${bind}"\nauth_token = "secret"\n`, {
          path: "server.toml",
        });
        const test = await TestFleet.open({ folder }), logged: Record<string, unknown>[] = [];
        const server = await listen(config, {
          ...{ probeDevices: () => Promise.resolve([]), log: (line) => void logged.push(line) },
          ...{ fleet: test.fleet, changes: test.relayed },
        });
        const url = `http://127.0.0.1:${server.address.split(":").at(-1)}/v1`, gate = `${folder}/gate`;
        const run = await test.create({ gate, updates: 1 });
        const follow = async () =>
          (await Array.fromAsync(shownEvents(`${url}/runs/${run.id}/events`, 0, TOKEN))).map(({ id }) => id);
        const following = Array.from({ length: FOLLOWERS }, follow);
        const get = async () => (await (await fetch(`${url}/runs/${run.id}`, { headers: TOKEN })).json()).id;
        const plan = async () => {
          const headers = { ...TOKEN, "content-type": "application/json" };
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
        await Promise.all([server.close(), test.close()]);
        assert.deepEqual(logged, []);
      }),
  });
}
