/** Runs of rows and pairs continue where they were, after a kill, a failure or a lost device. */

import assert from "node:assert/strict";
import type { ResolvedConfig } from "../../config/check/derive.ts";
import { ServiceError } from "../../core/errors.ts";
import { withFolder } from "../../tests/folder.ts";
import { adapterOf, startTestRun as start } from "../../tests/test_run.ts";
import type { EngineMethod, EngineMethods } from "../../trainer/protocol/protocol.ts";
import type { RunEvent } from "../record/event.ts";
import { REFERENCE } from "../algorithms/preference/preference.ts";
import { eventsOf, failAt, ofKind, usePreference, useSft } from "../run_fake.ts";
import * as testing from "../run_fake.ts";

const strict = { sanitizeOps: true, sanitizeResources: true };

for (const [name, rowsInstead] of [["sft", useSft], ["preference", usePreference]] as const) {
  Deno.test(`${name} without an end of its epochs resumes inside each of them`, strict, async () => {
    await withFolder(async (root) => {
      // An epoch has five updates, so the failures are in the first, second and third epoch.
      const change = (config: ResolvedConfig) => {
        rowsInstead(config);
        config.training.updates = 12;
        delete config.training.epochs;
      };
      const trained: number[][] = [];
      const see = (method: EngineMethod, request: unknown) => {
        if (method !== "train_step") return;
        const { samples } = request as EngineMethods["train_step"]["request"];
        trained.push([...samples[0]!.tokens]);
      };
      await (await start({ root: `${root}/whole`, change, refuse: see })).ended;
      const rows = trained.map((tokens) => tokens[0]!);
      for (const epoch of [rows.slice(0, 5), rows.slice(5, 10)]) {
        assert.deepEqual(epoch.toSorted(), [1, 2, 3, 4, 5]);
      }
      assert.equal(rows.length, 12);
      for (const update of [3, 6, 12]) {
        const at = `${root}/${update}`;
        await (await start({ root: at, change, refuse: failAt("train_step", update) })).ended;
        const resumed = await start({ root: at, change, start: { mode: "resume" } });
        const updates = ofKind(await eventsOf(resumed), "update");
        assert.deepEqual([updates[0]!.update, updates[0]!.updates], [update, 12]);
        assert.equal(await adapterOf(at), await adapterOf(`${root}/whole`));
      }
    });
  });
}

/** A DPO run from an adapter, with what its engines opened and what its reference scored. */
async function preferenceFrom(
  init_adapter: string,
  options: Pick<testing.TestRunOptions, "root" | "start" | "refuse">,
) {
  const opened: { engine: number; source: unknown }[] = [], adapters: (string | null)[] = [];
  const run = await start({
    ...options,
    change: (config) => {
      usePreference(config);
      config.lora.init_adapter = init_adapter;
    },
    refuse: (method, request, engine) => {
      options.refuse?.(method, request, engine);
      if (method === "adapter_open") {
        const { adapter, source } = request as EngineMethods["adapter_open"]["request"];
        if (adapter === REFERENCE) opened.push({ engine, source });
      }
      if (method === "score") adapters.push((request as EngineMethods["score"]["request"]).adapter);
    },
  });
  const events = await eventsOf(run);
  return { ended: await run.ended, events, opened, adapters };
}

/** The losses and margins of a run's updates, by update. */
function measuresOf(events: readonly RunEvent[]): Map<number, number[]> {
  const measures = new Map<number, number[]>();
  for (const { update, values } of ofKind(events, "metrics")) {
    if (!("loss/preference" in values)) continue;
    measures.set(update, [values["loss/preference"]!, values["preference/margin"]!]);
  }
  return measures;
}

Deno.test(
  "dpo compares with the initial adapter after a resume and after a lost device too",
  strict,
  async () => {
    await withFolder(async (root) => {
      await (await start({ root: `${root}/sft`, change: useSft })).ended;
      const init_adapter = `${root}/sft/runs/test/adapter.gguf`,
        source = { type: "file", path: init_adapter };
      const whole = await preferenceFrom(init_adapter, { root: `${root}/whole` });
      assert.equal(whole.ended, "completed");
      const measures = measuresOf(whole.events);
      assert.deepEqual([...measures.keys()], [1, 2, 3, 4, 5]);
      // The policy begins as the reference; the first two pairs have no token in common with earlier ones.
      assert.ok(Math.abs(measures.get(1)![0]! - Math.log(2)) < 1e-6);
      assert.ok([...measures.values()].slice(2).every(([, margin]) => Math.abs(margin!) > 1e-3));
      assert.ok(whole.adapters.includes(REFERENCE) && !whole.adapters.includes(null));

      const at = `${root}/resumed`;
      await preferenceFrom(init_adapter, { root: at, refuse: failAt("train_step", 4) });
      const resumed = await preferenceFrom(init_adapter, { root: at, start: { mode: "resume" } });
      assert.deepEqual(resumed.opened, [{ engine: 1, source }]);
      const later = measuresOf(resumed.events);
      assert.deepEqual([...later], [4, 5].map((update) => [update, measures.get(update)]));
      assert.equal(await adapterOf(at), await adapterOf(`${root}/whole`));

      let steps = 0;
      const lost = await preferenceFrom(init_adapter, {
        root: `${root}/lost`,
        refuse: (method, _, engine) => {
          if (method === "train_step" && engine === 1 && ++steps === 3) {
            throw new ServiceError("device_lost", "Cannot go on: the device is lost");
          }
        },
      });
      assert.deepEqual(lost.opened, [1, 2].map((engine) => ({ engine, source })));
      assert.deepEqual(measuresOf(lost.events), measures);
      assert.equal(await adapterOf(`${root}/lost`), await adapterOf(`${root}/whole`));
    });
  },
);
