import assert from "node:assert/strict";
import { withFolder } from "../../tests/folder.ts";
import { startTestRun as start } from "../../tests/test_run.ts";
import { eventsOf, heldoutByUpdate, MORE, ofKind } from "../run_fake.ts";
import { keptAdapters, siblingAdapter } from "./kept_adapters.ts";

const strict = { sanitizeOps: true, sanitizeResources: true };

Deno.test("the adapter that was not chosen is written beside the chosen one", () => {
  assert.equal(siblingAdapter("/out/adapter.gguf", "best"), "/out/adapter_best.gguf");
  assert.equal(siblingAdapter("/out.d/name", "last"), "/out.d/name_last");
  assert.equal(siblingAdapter("a.gguf", "best"), "a_best.gguf");
  const best = (update: number) => ({
    update: 4,
    best: { update, metric: "eval/pass_rate" as const, value: 1, pass_rate: null, by_example: {} },
  });
  const path = "/out/a.gguf";
  assert.deepEqual(keptAdapters({ path, adapter: "last" }, best(2)), {
    chosen: { which: "last", update: 4, path },
    other: { which: "best", update: 2, path: "/out/a_best.gguf" },
  });
  assert.deepEqual(keptAdapters({ path, adapter: "best" }, best(2)), {
    chosen: { which: "best", update: 2, path },
    other: { which: "last", update: 4, path: "/out/a_last.gguf" },
  });
  for (const state of [best(4), { update: 4, best: null }]) {
    for (const adapter of ["last", "best"] as const) {
      assert.deepEqual(keptAdapters({ path, adapter }, state), {
        chosen: { which: "last", update: 4, path },
        other: null,
      });
    }
  }
});

/** After update 1 the pass rate falls. */
const FALLING = [1, 3, 2, 0, 0];

const EVERY = MORE.replace("every_updates = 2", "every_updates = 1");

for (const adapter of ["last", "best"] as const) {
  Deno.test(
    `with output.adapter = "${adapter}" both adapters are those of their updates`,
    strict,
    async () => {
      await withFolder(async (root) => {
        const run = await start({
          root,
          more: EVERY,
          ...heldoutByUpdate(FALLING),
          change: (config) => config.output.adapter = adapter,
        });
        const events = await eventsOf(run);
        assert.equal(await run.ended, "completed");
        const end = ofKind(events, "end")[0]!;
        const { other_adapter, evaluation } = end;
        assert.ok(evaluation && other_adapter && evaluation.best.update === 1, "the run fell");
        const read = (path: string) => Deno.readTextFile(path);
        const at = (update: number) =>
          read(`${root}/runs/test/checkpoints/update_00000${update}/adapter.gguf`);
        assert.equal(end.adapter, `${root}/runs/test/adapter.gguf`);
        assert.deepEqual(
          [end.adapter_update, other_adapter.update],
          adapter === "last" ? [3, 1] : [1, 3],
        );
        const numbers = (text: string) => JSON.parse(text.slice(text.indexOf('{"version"')));
        const values = async (text: Promise<string>) => numbers(await text).delta;
        for (const { update, path } of [{ update: end.adapter_update!, path: end.adapter }, other_adapter]) {
          assert.deepEqual(await values(read(path)), await values(at(update)), path);
        }
        const names = (await Array.fromAsync(Deno.readDir(`${root}/runs/test`))).map(({ name }) => name);
        assert.deepEqual(names.filter((name) => name.startsWith("adapter")).toSorted(), [
          "adapter.gguf",
          adapter === "last" ? "adapter_best.gguf" : "adapter_last.gguf",
        ]);
        assert.deepEqual(
          ofKind(events, "artifact").map(({ name }) => name),
          ["adapter", adapter === "last" ? "adapter_best" : "adapter_last"],
        );
      });
    },
  );
}

Deno.test("a checkpoint has the best adapter, for a fork in another folder", strict, async () => {
  await withFolder(async (root) => {
    await (await start({ root, more: EVERY, ...heldoutByUpdate(FALLING) })).ended;
    const best_path = `${root}/runs/test/adapter_best.gguf`, kept = await Deno.readTextFile(best_path);
    await Deno.remove(best_path);
    const fork = await start({
      root: `${root}/fork`,
      more: EVERY,
      ...heldoutByUpdate(FALLING),
      change: (config) => config.agent!.updates = 4,
      start: { mode: "fork", checkpoint: `${root}/runs/test/checkpoints/update_000003` },
    });
    const end = ofKind(await eventsOf(fork), "end")[0]!;
    assert.deepEqual([end.state, end.other_adapter?.update], ["completed", 1]);
    assert.equal(await Deno.readTextFile(`${root}/fork/runs/test/adapter_best.gguf`), kept);
  });
});
