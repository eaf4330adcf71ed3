/**
 * A run with shortened steps leaves the same bytes whether or not it is killed, cut off in an update, resumed or loses
 * its device.
 */

import assert from "node:assert/strict";
import type { ResolvedConfig } from "../../config/check/derive.ts";
import { systemClock } from "../../core/clock.ts";
import { ServiceError } from "../../core/errors.ts";
import { withFolder } from "../../tests/folder.ts";
import { CHECKPOINT_ADAPTER, type EngineMethod } from "../../trainer/protocol/protocol.ts";
import { recordOf } from "../../tests/test_run.ts";
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

/** Three updates of the algorithm, of several micro-batches each, and where the second is cut: in its n-th call of a kind. */
const CUTS: Record<string, { change: (config: ResolvedConfig) => void; at: [EngineMethod, number][] }> = {
  // An update scores, takes two epochs of two steps, and compares policies to shorten them.
  "agent_grpo, several steps and a bound": {
    change: ({ agent }) =>
      Object.assign(agent!, {
        ...{ updates: 3, epochs_per_update: 2, optimizer_steps_per_update: 2, max_update_kl: 1e-6 },
      }),
    at: [["score", 1], ["train_step", 1], ["train_step", 2], ["divergence", 1], ["divergence", 2]],
  },
  "agent_grpo, one step": {
    change: ({ agent }) => Object.assign(agent!, { updates: 3, max_update_kl: 0 }),
    at: [["train_step", 1]],
  },
  "sft": { change: (config) => rowsOf(config, testing.useSft), at: [["train_step", 1]] },
  "preference": {
    change: (config) => rowsOf(config, testing.usePreference),
    at: [["train_step", 1], ["score", 1]],
  },
};

const checkpointEvery = (every: number) => `[checkpoint]\nevery_updates = ${every}\nkeep = 100\n`;

/** Updates of several rows. */
function rowsOf(config: ResolvedConfig, use: (config: ResolvedConfig) => void): void {
  use(config);
  config.training.batch_tokens = 24;
}

for (const [name, { change, at }] of Object.entries(CUTS)) {
  Deno.test(
    `a run that is cut off between two micro-batches keeps the last whole update, and continues to the same bytes: ${name}`,
    strict,
    () =>
      withFolder(async (root) => {
        const begun: string[] = [];
        const calls = new Map<string, number>();
        /** Of the first update. */
        let first_calls = new Map<string, number>();
        let cut: { method: string; call: number; stop: () => void } | null = null;
        const begin = async (at: string, start: TestRunOptions["start"] = {}, more = checkpointEvery(50)) => {
          begun.length = 0;
          calls.clear();
          const run = await testing.startTestRun({
            ...{ root: at, more, change, start, clock: systemClock },
            refuse: (method) => {
              if (method === "checkpoint_save" && first_calls.size === 0) first_calls = new Map(calls);
            },
            newEngine: (refuse) =>
              new ScriptedEngine({
                refuse,
                async micro_batch(method, n, signal) {
                  if (n === 1) calls.set(method, (calls.get(method) ?? 0) + 1);
                  const call = calls.get(method)!;
                  begun.push(`${method} ${call} ${n}`);
                  if (cut?.method !== method || cut.call !== call || n !== 2) return;
                  cut.stop();
                  await new Promise((resolve) => signal.addEventListener("abort", resolve));
                },
              }).client,
          });
          const events = await eventsOf(run);
          return { events, ended: await run.ended };
        };
        const checkpointOf = (at: string) =>
          Deno.readTextFile(`${folderOf(at)}/checkpoints/update_000001/${CHECKPOINT_ADAPTER}`);
        const whole = `${root}/whole`;
        assert.equal((await begin(whole, {}, checkpointEvery(1))).ended, "completed");
        const all = [...begun], adapters = await adaptersOf(whole);
        for (const [method, nth] of at) {
          const call = (first_calls.get(method) ?? 0) + nth;
          const folder = `${root}/${method}_${call}`;
          await Deno.mkdir(folderOf(folder), { recursive: true });
          // A server's run: its process adopts the record, and discards its update when the server stops.
          const record = { ...await recordOf(whole), state: "starting" };
          await Deno.writeTextFile(`${folderOf(folder)}/run.json`, JSON.stringify(record));
          const pipe = testing.testPipe();
          pipe.send({ begin: true });
          cut = { method, call, stop: pipe.end };
          const { events, ended } = await begin(folder, { adopt: record.id, control: pipe.port });
          cut = null;
          assert.equal(ended, "interrupted", folder);
          assert.equal(begun.at(-1), `${method} ${call} 2`, "no micro-batch after the cut");
          assert.deepEqual(begun, all.slice(0, begun.length));
          assert.deepEqual(ofKind(events, "update").map(({ update }) => update), [1]);
          assert.equal(await checkpointOf(folder), await checkpointOf(whole), folder);
          assert.equal((await begin(folder, { mode: "resume" })).ended, "completed");
          assert.deepEqual(await adaptersOf(folder), adapters, folder);
        }
      }),
  );
}
