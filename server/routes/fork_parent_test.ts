/** Forks whose parent changes while they are planned. */

import assert from "node:assert/strict";
import { TestFleet } from "../../runs/fleet/fleet_testing.ts";
import type { ManagedRun } from "../../runs/fleet/managed_run.ts";
import { JobPool } from "../../runs/jobs/job_pool.ts";
import type { JobRunner } from "../../runs/jobs/job_table.ts";
import { ASSUMED_DEVICE } from "../../tests/assumed_device.ts";
import { fixturePath } from "../../tests/fixture.ts";
import { withFolder } from "../../tests/folder.ts";
import { writeTraces } from "../../tests/small_sft.ts";
import type { Sent } from "../app_testing.ts";
import { withJobApp } from "../jobs_testing.ts";

const MODEL = await fixturePath("models/tiny-agent-f16.gguf");
const CLI = new URL("../../cli.ts", import.meta.url).href;

/** What happens to the parent after each plan of a fork. */
type Between = (parent: ManagedRun) => Promise<unknown>;

interface Forks {
  fleet: TestFleet;
  /** Forks the run, which has three checkpoints at first. */
  forkWhile(between: Between, fork_from?: { checkpoint?: string }): Promise<Sent>;
}

async function withForks(body: (forks: Forks) => Promise<void>): Promise<void> {
  await withFolder(async (folder) => {
    const fleet = await TestFleet.open({ folder, slots: 4 }), pool = new JobPool({ entry_url: CLI });
    let afterPlan = () => Promise.resolve<unknown>(null);
    const jobs: JobRunner = {
      async run(name, request, signal) {
        const answer = await pool.run(name, request, signal);
        await afterPlan();
        return answer;
      },
    };
    try {
      await withJobApp(async ({ send, root, logged }) => {
        await Deno.copyFile(MODEL, `${root}/m.gguf`);
        await writeTraces(`${root}/t.jsonl`);
        const headers = { "content-type": "application/json" };
        const post = (body: unknown) =>
          send("/v1/runs", { method: "POST", headers, body: JSON.stringify(body) });
        const files = { model: `${root}/m.gguf`, data: `${root}/t.jsonl` };
        const params = { "training.ctx": 1024 };
        const created = await post({ recipe: "sft", ...files, budget: { updates: 3 }, params });
        assert.equal(created.status, 201, created.body);
        const parent = fleet.fleet.get(created.json.id)!;
        await fleet.until(parent, "completed");
        await fleet.fleet.idle(parent.id);
        const forkWhile: Forks["forkWhile"] = async (between, fork_from = {}) => {
          afterPlan = () => between(parent);
          return await post({ fork_from: { run: parent.id, ...fork_from } });
        };
        await body({ fleet, forkWhile });
        assert.deepEqual(logged, []);
        const left = [...Deno.readDirSync(`${folder}/runs`)].filter(({ name }) => name.startsWith("."));
        assert.deepEqual(left, []);
      }, { fleet: fleet.fleet, jobs, probeDevices: () => Promise.resolve([ASSUMED_DEVICE]) });
    } finally {
      await fleet.close();
      await pool.close();
    }
  });
}

const refusal = ({ status, json }: Sent) => [status, json.errors[0].pointer, json.errors[0].code];

Deno.test("a fork whose parent changes while it is planned is refused as the parent then is", () =>
  withForks(async ({ forkWhile }) => {
    let plans = 0;
    const moving = await forkWhile(async ({ checkpointRoot }) => {
      const name = (n: number) => `${checkpointRoot}/update_00000${n}`;
      await Deno.rename(name(3 + plans), name(4 + plans));
      plans++;
    });
    assert.deepEqual([...refusal(moving), plans], [409, "", "conflict", 3]);
    assert.match(moving.json.detail, /try again when it has ended/);

    const remove = ({ checkpointRoot }: ManagedRun, name: string) =>
      Deno.remove(`${checkpointRoot}/${name}`, { recursive: true });
    const named = await forkWhile((parent) => remove(parent, "update_000006"), {
      checkpoint: "update_000006",
    });
    assert.deepEqual(refusal(named), [404, "/fork_from/checkpoint", "not_found"]);

    // The newest is the one that is there when it is copied.
    const newest = await forkWhile((parent) => remove(parent, "update_000002").catch(() => {}));
    assert.deepEqual([newest.status, newest.json.parent?.checkpoint], [201, "update_000001"]);

    const none = await forkWhile((parent) => remove(parent, "update_000001").catch(() => {}));
    assert.deepEqual(refusal(none), [409, "", "conflict"]);
  }));

Deno.test("a parent that is deleted while its fork is planned is not found", () =>
  withForks(async ({ fleet, forkWhile }) => {
    const sent = await forkWhile((parent) => fleet.fleet.delete(parent.id));
    assert.deepEqual(refusal(sent), [404, "/fork_from/run", "not_found"]);
  }));
