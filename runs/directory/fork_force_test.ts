/** A replaced run leaves no trace in the adapters of the run that replaces it. */

import assert from "node:assert/strict";
import { withFolder } from "../../tests/folder.ts";
import { ScriptedEngine } from "../../trainer/engine/scripted_engine_fake.ts";
import { eventsOf, heldoutByUpdate, MORE, ofKind, type TestRunOptions } from "../run_fake.ts";
import * as testing from "../run_fake.ts";

const strict = { sanitizeOps: true, sanitizeResources: true };

/** After update 1 the pass rate falls: the best adapter is not the last. */
const FALLING = [1, 3, 2, 0, 0];

interface RunOptions extends Pick<TestRunOptions, "root" | "start"> {
  adapter: "last" | "best";
  updates?: number;
  lr?: number;
}

/** Runs to the end, and returns the adapters in the run's folder by name. */
async function adaptersOf({ root, start, adapter, updates = 3, lr = 0.01 }: RunOptions) {
  const run = await testing.startTestRun({
    root,
    ...(start && { start }),
    ...heldoutByUpdate(FALLING),
    newEngine: (refuse) => new ScriptedEngine({ refuse }).client,
    more: MORE.replace("every_updates = 2", "every_updates = 1"),
    change: (config) => {
      config.output.adapter = adapter;
      config.agent!.updates = updates;
      config.training.lr = lr;
    },
  });
  const end = ofKind(await eventsOf(run), "end")[0]!;
  assert.equal(await run.ended, "completed", `${end.reason}: ${end.detail}`);
  const folder = `${root}/runs/test`;
  const names = (await Array.fromAsync(Deno.readDir(folder))).map(({ name }) => name)
    .filter((name) => name.startsWith("adapter")).toSorted();
  assert.deepEqual(names.map((name) => `${folder}/${name}`), [end.adapter, end.other_adapter?.path]);
  return Object.fromEntries(
    await Promise.all(names.map(async (name) => [name, await Deno.readTextFile(`${folder}/${name}`)])),
  ) as Record<string, string>;
}

for (const is_fork of [false, true]) {
  for (const force of [false, true]) {
    for (const adapter of ["last", "best"] as const) {
      const what = `${is_fork ? "a fork" : "a new run"} ${
        force ? "with --force leaves its own adapters" : "without --force is refused where a run lies"
      }`;
      Deno.test(`${what}: output.adapter = "${adapter}"`, strict, async () => {
        await withFolder(async (root) => {
          await adaptersOf({ root: `${root}/parent`, adapter: "last" });
          const checkpoint = `${root}/parent/runs/test/checkpoints/update_000003`;
          const start = is_fork ? { mode: "fork" as const, checkpoint, force } : { force };
          const updates = is_fork ? 4 : 3;
          // The same in an empty folder.
          const expected = await adaptersOf({ root: `${root}/fresh`, start, adapter, updates });
          assert.deepEqual(Object.keys(expected), [
            "adapter.gguf",
            adapter === "last" ? "adapter_best.gguf" : "adapter_last.gguf",
          ]);
          // Each choice leaves files under other names.
          for (const earlier of ["last", "best"] as const) {
            const at = `${root}/after_${earlier}`;
            const replaced = await adaptersOf({ root: at, adapter: earlier, lr: 0.02 });
            assert.notEqual(replaced["adapter.gguf"], expected["adapter.gguf"]);
            const again = () => adaptersOf({ root: at, start, adapter, updates });
            if (force) assert.deepEqual(await again(), expected);
            else await assert.rejects(again(), { code: "already_exists" });
          }
        });
      });
    }
  }
}
