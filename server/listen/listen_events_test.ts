/** Streams of events on real sockets, when the server stops. */

import assert from "node:assert/strict";
import { parseServerConfig } from "../../config/server/load.ts";
import { AsyncQueue } from "../../core/async_queue.ts";
import { systemClock } from "../../core/clock.ts";
import type { FleetChange } from "../../runs/fleet/run_lifecycle.ts";
import { openDatabase } from "../store/database.ts";
import { openGate, TestFleet } from "../../runs/fleet/fleet_testing.ts";
import { withFolder } from "../../tests/folder.ts";
import { listen } from "./listen.ts";

const strict = { sanitizeOps: true, sanitizeResources: true };

/** The data of a stream's events, once the stream has ended as it should. */
async function readEvents(response: Response): Promise<Record<string, unknown>[]> {
  return [...(await response.text()).matchAll(/^data: (.*)$/mg)].map(([, data]) => JSON.parse(data!));
}

Deno.test(
  "open streams get the last events of a server that stops, and end",
  strict,
  () =>
    withFolder(async (folder) => {
      const config = parseServerConfig(`bind = "127.0.0.1:0"\n`, { path: "server.toml" });
      const gate = `${folder}/gate`, fleet = await TestFleet.open({ folder });
      const logged: Record<string, unknown>[] = [];
      const server = await listen(config, {
        ...{ probeDevices: () => Promise.resolve([]), log: (line) => void logged.push(line) },
        ...{ fleet: fleet.fleet, changes: fleet.relayed },
      }, { close_grace_ms: 60_000 });
      const run = await fleet.create({ gate });
      await fleet.untilTraining(run, gate, 1);
      const url = `http://${server.address}/v1`;
      const streams = await Promise.all([
        fetch(`${url}/runs/${run.id}/events`),
        fetch(`${url}/events`),
        fetch(`${url}/runs/${run.id}/events?since=${run.last_seq}`),
      ]);
      const closing = Promise.all([server.close(), fleet.close()]);
      await openGate(gate, 1);
      const [all, of_all_runs, newest] = await Promise.all(streams.map(readEvents));
      await closing;
      assert.equal(run.record.state, "interrupted");
      assert.deepEqual(all!.map(({ seq }) => seq), all!.map((_, i) => i + 1));
      for (const events of [all!, of_all_runs!, newest!]) {
        const { kind, state } = events.at(-1)!;
        assert.deepEqual([kind, state], ["state", "interrupted"]);
      }
      assert.equal(all!.length, run.last_seq);
      assert.deepEqual(logged, []);
    }),
);

Deno.test(
  "a server has stopped when what happened to its runs is stored",
  strict,
  () =>
    withFolder(async (folder) => {
      const config = parseServerConfig(`bind = "127.0.0.1:0"\n`, { path: "server.toml" });
      const log = () => {}, clock = systemClock, database = openDatabase(null, { clock, log });
      const opened = await TestFleet.open({ folder }), { fleet } = opened;
      const changes = new AsyncQueue<FleetChange>();
      const services = { probeDevices: () => Promise.resolve([]), log, database, fleet, changes };
      const server = await listen(config, services);
      let is_closed = false;
      const closing = server.close().then(() => is_closed = true);
      for (let turn = 0; turn < 50; turn++) await new Promise((resolve) => setTimeout(resolve));
      assert.equal(is_closed, false);
      changes.push({ kind: "created", run: "a", state: "queued" });
      changes.close();
      await closing;
      assert.equal(database.get<{ run: string }>("SELECT run FROM fleet_events")!.run, "a");
      database.close();
      await opened.close();
    }),
);
