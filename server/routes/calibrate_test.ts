/** `POST /v1/plan?calibrate=true`, with real jobs and a process whose measurements are fixed. */

import assert from "node:assert/strict";
import { TestFleet } from "../../runs/fleet/fleet_testing.ts";
import { ASSUMED_DEVICE } from "../../tests/assumed_device.ts";
import { fixturePath } from "../../tests/fixture.ts";
import { withFolder } from "../../tests/folder.ts";
import { writeTraces } from "../../tests/small_sft.ts";
import { type Given, refusal, type Sent } from "../app_testing.ts";
import { withJobApp } from "../jobs_testing.ts";

const strict = { sanitizeOps: true, sanitizeResources: true };

const post = (body: unknown): Given => ({
  method: "POST",
  headers: { "content-type": "application/json" },
  body: JSON.stringify(body),
});

interface Plans {
  fleet: TestFleet;
  folder: string;
  /** The folder with the recipe's files. */
  root: string;
  plan: (query: string, more?: Record<string, unknown>) => Promise<Sent>;
}

/** An app with a fleet, and a recipe that trains 3 updates. */
const withPlans = (body: (plans: Plans) => Promise<void>, toml = "") =>
  withFolder(async (folder) => {
    const fleet = await TestFleet.open({ folder });
    try {
      await withJobApp(async ({ send, root }) => {
        const files = { model: `${root}/m.gguf`, data: `${root}/t.jsonl` };
        await Deno.copyFile(await fixturePath("models/tiny-agent-f16.gguf"), files.model);
        await writeTraces(files.data);
        const recipe = { recipe: "sft", ...files, budget: { updates: 3 }, params: { "training.ctx": 1024 } };
        await body({
          fleet,
          folder,
          root,
          plan: (query, more = {}) => send(`/v1/plan${query}`, post({ ...recipe, ...more })),
        });
      }, {
        ...{ fleet: fleet.fleet, toml },
        probeDevices: () => Promise.resolve([ASSUMED_DEVICE]),
      });
    } finally {
      await fleet.close();
    }
  });

Deno.test(
  "measurements of an update replace the estimates of memory and time",
  strict,
  () =>
    withPlans(async ({ plan, fleet, folder }) => {
      const estimated = await plan("?calibrate=false"), measured = await plan("?calibrate=true");
      assert.deepEqual([estimated.status, measured.status], [200, 200], measured.body);
      assert.deepEqual(estimated.json, (await plan("")).json);
      const { seconds_per_update, eta_seconds, calibrated } = estimated.json.schedule;
      assert.deepEqual([seconds_per_update, eta_seconds, calibrated], [null, null, false]);
      const { memory, schedule, ...rest } = measured.json,
        { memory: _, schedule: planned, ...same } = estimated.json;
      assert.deepEqual(rest, same);
      const [copies, largest] = memory.posts;
      assert.deepEqual([largest, memory.peak_bytes], [{ post: "weights", bytes: 1000 }, 1530]);
      // It lies in the machine's memory, which is not measured.
      assert.equal(copies.post, "host_checkpoint");
      // 100 tokens take 3 seconds.
      const seconds = 3 * planned.tokens_per_update / 100;
      assert.deepEqual(schedule, {
        ...{ ...planned, seconds_per_update: seconds, eta_seconds: 3 * seconds, calibrated: true },
      });
      assert.ok(fleet.fleet.device.hasSlot());
      assert.deepEqual(await Array.fromAsync(Deno.readDir(`${folder}/runs`)), []);
      assert.deepEqual(refusal(await plan("?calibrate=yes")), [422, "invalid-request", [
        "/query/calibrate invalid_value",
      ]]);
    }),
);

Deno.test(
  "a measurement needs the device, and may fail",
  strict,
  () =>
    withPlans(async ({ plan, fleet, folder }) => {
      const loan = fleet.fleet.device.lend("serving"), busy = await plan("?calibrate=true");
      assert.deepEqual([refusal(busy), busy.headers["retry-after"]], [[503, "device-busy", []], "30"]);
      assert.equal((await plan("")).status, 200);
      loan.release();
      fleet.calibration = "dies";
      assert.deepEqual(refusal(await plan("?calibrate=true")), [500, "internal", []]);
      fleet.calibration = "out_of_memory";
      const refused = await plan("?calibrate=true");
      assert.deepEqual(refusal(refused), [422, "insufficient-memory", ["/params/training.ctx out_of_range"]]);
      assert.ok(!refused.body.includes("/secret"));
      assert.deepEqual(await Array.fromAsync(Deno.readDir(`${folder}/runs`)), []);
    }),
);

Deno.test(
  "a measurement that takes too long is a timeout",
  strict,
  () =>
    withPlans(async ({ plan, fleet }) => {
      fleet.calibration = "hangs";
      assert.deepEqual(refusal(await plan("?calibrate=true")), [504, "timeout", []]);
      assert.ok(fleet.fleet.device.hasSlot());
    }, "command_timeout_seconds = 1\n"),
);

Deno.test(
  "a measurement above the budget names what would make it fit",
  strict,
  () =>
    withPlans(async ({ plan, fleet }) => {
      const vram = 2 ** 30, small = 98 * 2 ** 20, limits = { vram };
      const { peak_bytes } = (await plan("", { limits })).json.memory;
      // What the plan says of the budget that is left when the measurement takes so much more than estimated.
      const estimated = await plan("", { limits: { vram: small } });
      assert.deepEqual(estimated.json.meta.unlocks, ["truncate_context"], estimated.body);
      fleet.calibration = { bytes: { kv: 1000, weights: vram + peak_bytes - small - 1000 } };
      const refused = await plan("?calibrate=true", { limits });
      assert.deepEqual(refusal(refused), [422, "insufficient-memory", ["/model out_of_range"]]);
      const { overflow_bytes, vram_budget_bytes, dominant_posts, unlocks } = refused.json.meta;
      assert.deepEqual([overflow_bytes, vram_budget_bytes], [peak_bytes - small, vram]);
      assert.deepEqual(dominant_posts[0], { post: "weights", bytes: vram + peak_bytes - small - 1000 });
      assert.deepEqual(unlocks, ["truncate_context"]);
      const allowed = await plan("?calibrate=true", { limits, allow: ["truncate_context"] });
      assert.deepEqual([allowed.status, allowed.json.meta.unlocks], [422, []]);
    }),
);

Deno.test(
  "a file that fails when it is measured is refused at its field, as the request names it",
  strict,
  () =>
    withPlans(async ({ plan, fleet, root }) => {
      const model = `${root}/link.gguf`;
      await Deno.symlink(`${root}/m.gguf`, model);
      const codes = { path_not_found: "path_not_found", data_invalid: "invalid_value" } as const;
      for (const [failure, code] of Object.entries(codes)) {
        fleet.calibration = failure as keyof typeof codes;
        const { status, json } = await plan("?calibrate=true", { model });
        assert.deepEqual([status, json.errors], [422, [
          { pointer: "/model", code, message: `Cannot read ${model}: it is broken on purpose` },
        ]]);
      }
      // Only a file of the request is its fault.
      fleet.calibration = "loss_not_finite";
      assert.deepEqual(refusal(await plan("?calibrate=true", { model })), [500, "internal", []]);
    }),
);
