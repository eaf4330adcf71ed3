/** Forks of runs: what they keep of their parent, and what they may not change. */

import assert from "node:assert/strict";
import { TestFleet } from "../../runs/fleet/fleet_testing.ts";
import type { ManagedRun } from "../../runs/fleet/managed_run.ts";
import { withFolder } from "../../tests/folder.ts";
import { type PlanApp, postJson, withPlans } from "../../tests/plan_app.ts";
import { refusal } from "../app_testing.ts";

const strict = { sanitizeOps: true, sanitizeResources: true };

type ForkApp = PlanApp & { fleet: TestFleet };

/** An app whose runs train on a scripted engine. */
const withForks = (body: (app: ForkApp) => Promise<void>) =>
  withFolder(async (folder) => {
    const fleet = await TestFleet.open({ folder, slots: 2 });
    try {
      await withPlans((app) => body({ ...app, fleet }), { fleet: fleet.fleet });
    } finally {
      await fleet.close();
    }
  });

/** A run that has trained to its end. */
async function trained({ send, fleet }: ForkApp, request: object): Promise<ManagedRun> {
  const { status, json } = await send("/v1/runs", postJson(request));
  assert.equal(status, 201, JSON.stringify(json));
  const run = fleet.fleet.get(json.id)!;
  await fleet.until(run, "completed", "failed");
  assert.equal(run.record.state, "completed", JSON.stringify(run.record.error));
  await fleet.fleet.idle(run.id);
  return run;
}

const grpo = ({ files: { model, scenarios } }: PlanApp) => ({
  ...{ recipe: "agent_grpo", model, scenarios, objective: { environment: "box" }, budget: { updates: 2 } },
  params: { "training.ctx": 1024, "agent.group_size": 2, "agent.scenarios_per_update": 1 },
});

const sft = ({ files: { model, traces } }: PlanApp) => ({
  ...{ recipe: "sft", model, data: traces, budget: { updates: 2 }, params: { "training.ctx": 1024 } },
});

Deno.test(
  "a fork that rescales the gradient is planned with a warning for each key",
  strict,
  () =>
    withForks(async (app) => {
      const run = await trained(app, { ...grpo(app), limits: { vram: "148MiB" } });
      assert.ok(run.service.plan.levers_applied.length > 0);
      const params = { "agent.max_turns": 3, "agent.clip_high": 0.5, "training.lr": 0.5 };
      const { status, json } = await app.send("/v1/plan", postJson({ fork_from: { run: run.id }, params }));
      assert.equal(status, 200, JSON.stringify(json));
      const fields = json.warnings.filter(({ code }: { code: string }) => code === "budget_changed_on_fork")
        .map(({ field }: { field: string }) => field);
      assert.deepEqual(fields, ["agent.clip_high", "agent.max_turns"]);
      // What nobody set follows from the fork's own values: more updates, and fewer texts of each.
      const fork = { fork_from: { run: run.id }, budget: { updates: 300 } };
      const longer = await app.send("/v1/plan", postJson(fork));
      assert.deepEqual([longer.json.config.observe.every, longer.json.sources["observe.every"]], [
        3,
        "derived",
      ]);
      const same = longer.json.warnings.filter(({ code }: { code: string }) =>
        code === "budget_changed_on_fork"
      );
      assert.deepEqual(same, []);
      assert.equal(longer.json.sources["agent.group_size"], "override");
      assert.equal(longer.json.sources["training.micro_batch_tokens"], "derived");
    }),
);

Deno.test(
  "only what differs from the parent's training is a conflict, at the field that sets it",
  strict,
  () =>
    withForks(async (app) => {
      const { send, files } = app;
      // The memory is so short that levers set keys which the request did not.
      const run = await trained(app, { ...sft(app), limits: { vram: "148MiB" } });
      const { levers_applied, config: { training } } = run.service.plan;
      assert.ok(levers_applied.includes("gradient_checkpointing"), levers_applied.join());
      const fork_from = { run: run.id };
      const config = {
        run: { algorithm: "sft" },
        model: { path: files.model },
        sft: { data: files.traces },
        training: { ctx: 1024, updates: 5, lr: 0.1 },
        checkpoint: {},
      };
      for (const body of [{ fork_from, budget: { updates: 5 } }, { fork_from, config }]) {
        const { status, json } = await send("/v1/plan", postJson(body));
        assert.equal(status, 200, JSON.stringify(json));
        assert.deepEqual(json.config.training.gradient_checkpointing, training.gradient_checkpointing);
        assert.equal(json.config.training.loss_chunk_rows, training.loss_chunk_rows);
      }
      const conflict = async (body: object, ...pointers: string[]) =>
        assert.deepEqual(refusal(await send("/v1/plan", postJson({ fork_from, ...body }))), [
          409,
          "conflict",
          pointers.map((pointer) => `${pointer} conflict`),
        ]);
      await conflict({ params: { "lora.rank": 4, "run.seed": 1 } }, "/params/lora.rank", "/params/run.seed");
      // What follows from a changed key is not told.
      const allow = ["truncate_context"];
      await conflict({ params: { "training.ctx": 512 }, allow }, "/params/training.ctx");
      // Without training.ctx it is the model's, which is the parent's too.
      const shorter = { ...config, training: { updates: 5 } };
      await conflict({ config: { ...shorter, lora: { rank: 4 } } }, "/config/lora/rank");
      assert.equal((await send("/v1/plan", postJson({ fork_from, config: shorter }))).status, 200);
      // Another algorithm, with or without its fields.
      await conflict({ recipe: "agent_grpo" }, "/recipe");
      await conflict({ recipe: "preference", model: files.model, data: files.traces }, "/recipe");
      // The checkpoint has 2 updates.
      for (const updates of [1, 2]) {
        await conflict({ budget: { updates } }, "/budget/updates");
        await conflict({ params: { "training.updates": updates } }, "/params/training.updates");
      }
      await conflict({ config: { ...config, training: { updates: 2 } } }, "/config/training/updates");
      // The same path with other contents is another training.
      await Deno.writeTextFile(files.traces, (await Deno.readTextFile(files.traces)).trimEnd());
      await conflict({ budget: { updates: 5 } }, "/fork_from/run");
      await conflict({ data: files.traces }, "/data");
      await conflict({ config }, "/config/sft/data");
    }),
);

Deno.test("what a parent names and is gone is told at the parent", strict, () =>
  withForks(async (app) => {
    const run = await trained(app, grpo(app)), fork_from = { run: run.id };
    const other = app.restart({
      toml: '[[environments]]\nid = "pod"\ntype = "local"\nallow_unsandboxed = true\n',
    });
    const refused = async (body: object) =>
      refusal(await other.send("/v1/plan", postJson({ fork_from, ...body })));
    const unknown = (pointer: string) => [422, "unknown-catalog-id", [`${pointer} unknown_catalog_id`]];
    assert.deepEqual(await refused({}), unknown("/fork_from/run"));
    assert.deepEqual(await refused({ objective: { environment: "box" } }), unknown("/objective/environment"));
    // A fork's problems of the first class come before the parent is looked for.
    await Deno.remove(app.files.scenarios);
    assert.deepEqual(await refused({}), [422, "invalid-request", ["/fork_from/run path_not_found"]]);
    assert.deepEqual(await refused({ params: { "lora.rnk": 1 } }), [422, "invalid-request", [
      "/params/lora.rnk unknown_field",
    ]]);
    const gone = { fork_from: { run: "run_x" }, params: { "evaluation.data": "ds_x" } };
    assert.deepEqual(refusal(await other.send("/v1/plan", postJson(gone))), [404, "not-found", [
      "/fork_from/run not_found",
      "/params/evaluation.data not_found",
    ]]);
  }));

Deno.test("a damaged checkpoint cannot be forked", strict, () =>
  withForks(async (app) => {
    const run = await trained(app, sft(app)), name = (await run.checkpoints()).at(-1)!;
    await Deno.writeTextFile(`${run.checkpointRoot}/${name}/state.json`, "{}");
    const { json } = await app.send("/v1/plan", postJson({ fork_from: { run: run.id } }));
    assert.match(json.detail, new RegExp(`checkpoint ${name} is damaged`));
    assert.deepEqual(json.errors.map(({ pointer }: { pointer: string }) => pointer), ["/fork_from/run"]);
  }));
