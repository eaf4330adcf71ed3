/** A run with shortened steps leaves the same bytes whether or not it is killed, resumed or loses its device. */

import assert from "node:assert/strict";
import type { ResolvedConfig } from "../../config/check/derive.ts";
import { systemClock } from "../../core/clock.ts";
import { ServiceError } from "../../core/errors.ts";
import { withFolder } from "../../tests/folder.ts";
import type { EngineMethod } from "../../trainer/protocol/protocol.ts";
import { ScriptedEngine } from "../../trainer/engine/scripted_engine_fake.ts";
import type { RunEvent } from "../record/event.ts";
import {
  copyFolder,
  eventsOf,
  failAt,
  heldoutByUpdate,
  MORE,
  ofKind,
  type TestRunOptions,
} from "../run_fake.ts";
import * as testing from "../run_fake.ts";

const strict = { sanitizeOps: true, sanitizeResources: true };

type Choice = "last" | "best";

/** The best update changes twice before the pass rate falls: its adapter is trained, and not the last. */
const PASSING = [1, 2, 3, 1, 0];

/** A run of four updates, each with an evaluation and a checkpoint. */
async function start(
  adapter: Choice,
  options: Pick<TestRunOptions, "root" | "start" | "refuse" | "clock">,
) {
  const heldout = heldoutByUpdate(PASSING);
  return await testing.startTestRun({
    ...options,
    newEngine: (refuse) => new ScriptedEngine({ refuse }).client,
    more: MORE.replace("every_updates = 2", "every_updates = 1"),
    verify: heldout.verify,
    refuse: (method, request, engine) => {
      options.refuse?.(method, request, engine);
      heldout.refuse(method, request);
    },
    change: (config: ResolvedConfig) => {
      config.output.adapter = adapter;
      Object.assign(config.agent!, { updates: 4, max_update_kl: 1e-6 });
    },
  });
}

/** Every step was shortened, and none was undone. */
function allAreShortened(events: readonly RunEvent[], updates: number): void {
  const scales = ofKind(events, "metrics").flatMap(({ values }) => values["optimizer/step_scale"] ?? []);
  assert.equal(scales.length, updates);
  assert.ok(scales.every((scale) => 0 < scale && scale < 1), scales.join());
}

const folderOf = (root: string) => `${root}/runs/test`;

/** The adapters of a run, by name. */
async function adaptersOf(root: string): Promise<Record<string, string>> {
  const names = (await Array.fromAsync(Deno.readDir(folderOf(root)))).map(({ name }) => name)
    .filter((name) => name.startsWith("adapter")).toSorted();
  return Object.fromEntries(
    await Promise.all(
      names.map(async (name) => [name, await Deno.readTextFile(`${folderOf(root)}/${name}`)]),
    ),
  );
}

/** A run without interruption, with all its engine requests. */
async function undisturbed(
  adapter: Choice,
  root: string,
  see?: (method: EngineMethod) => void,
): Promise<Record<string, string>> {
  const run = await start(adapter, { root, clock: systemClock, ...(see && { refuse: see }) });
  const events = await eventsOf(run);
  assert.equal(await run.ended, "completed");
  allAreShortened(events, 4);
  const adapters = await adaptersOf(root);
  assert.deepEqual(Object.keys(adapters), [
    "adapter.gguf",
    adapter === "last" ? "adapter_best.gguf" : "adapter_last.gguf",
  ]);
  assert.equal(new Set(Object.values(adapters)).size, 2);
  return adapters;
}

for (const adapter of ["last", "best"] as const) {
  Deno.test(
    `wherever a run is killed both adapters get the same bytes: "${adapter}"`,
    strict,
    async () => {
      await withFolder(async (root) => {
        const copies: string[] = [];
        const adapters = await undisturbed(adapter, root, (method) => {
          if (
            !["train_step", "adapter_interpolate", "checkpoint_save", "adapter_save"].includes(method)
          ) return;
          copies.push(`${root}/copy_${copies.length}_${method}`);
          copyFolder(`${root}/runs`, `${copies.at(-1)}/runs`);
        });
        const taken = (method: string) => copies.filter((copy) => copy.endsWith(method)).length;
        assert.ok(
          taken("train_step") === 4 && taken("adapter_save") >= 4 && taken("adapter_interpolate") >= 4,
        );
        const without_best = new Set<string | null>();
        for (const copy of copies) {
          const torn = `${copy}_torn`;
          copyFolder(`${copy}/runs`, `${torn}/runs`);
          // The copy in the checkpoint counts, not the file beside the run's adapter.
          await Deno.writeTextFile(`${folderOf(torn)}/adapter_best.gguf`, "").catch(() => {});
          for (const at of [copy, torn]) {
            const resumed = await start(adapter, { root: at, start: { mode: "resume" } });
            const [first] = ofKind(await eventsOf(resumed), "state");
            assert.equal(await resumed.ended, "completed", at);
            assert.deepEqual(await adaptersOf(at), adapters, at);
            if (at === torn) without_best.add(first!.checkpoint);
          }
        }
        const updates = [1, 2, 3, 4].map((update) => `update_00000${update}`);
        assert.deepEqual([...without_best], [null, ...updates]);
      });
    },
  );

  Deno.test(
    `a failed run continues to the same bytes of both adapters: "${adapter}"`,
    strict,
    async () => {
      await withFolder(async (root) => {
        const adapters = await undisturbed(adapter, `${root}/whole`);
        for (const update of [2, 3, 4]) {
          const at = `${root}/${update}`;
          const failed = await start(adapter, { root: at, refuse: failAt("train_step", update) });
          assert.equal(await failed.ended, "failed");
          await Deno.remove(`${folderOf(at)}/adapter_best.gguf`);
          const resumed = await start(adapter, { root: at, start: { mode: "resume" } });
          allAreShortened(await eventsOf(resumed), 4 - update + 1);
          assert.deepEqual(await adaptersOf(at), adapters, at);
        }
      });
    },
  );

  Deno.test(`a lost device changes no byte of both adapters: "${adapter}"`, strict, async () => {
    await withFolder(async (root) => {
      const adapters = await undisturbed(adapter, `${root}/whole`);
      // Before a step, during its shortening, and during the saving of the best adapter or a checkpoint.
      for (const method of ["train_step", "adapter_interpolate", "adapter_save", "checkpoint_save"]) {
        for (const nth of [1, 2, 3]) {
          const at = `${root}/${method}_${nth}`;
          let calls = 0;
          const run = await start(adapter, {
            root: at,
            refuse: (asked) => {
              if (asked !== method || ++calls !== nth) return;
              throw new ServiceError("device_lost", "Cannot go on: the device is lost");
            },
          });
          const events = await eventsOf(run);
          assert.equal(await run.ended, "completed");
          assert.equal(ofKind(events, "warning").filter(({ code }) => code === "device_lost").length, 1, at);
          assert.deepEqual(await adaptersOf(at), adapters, at);
        }
      }
    });
  });
}
