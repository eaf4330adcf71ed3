import assert from "node:assert/strict";
import { withFolder } from "../../tests/folder.ts";
import type { EngineMethod, EngineMethods, LoadRequest } from "../../trainer/protocol/protocol.ts";
import { ScriptedEngine } from "../../trainer/engine/scripted_engine_fake.ts";
import {
  heldoutByUpdate,
  startTestRun,
  testPipe,
  type TestRunOptions,
  usePreference,
  useSft,
} from "../run_fake.ts";

const strict = { sanitizeOps: true, sanitizeResources: true };

const newEngine: TestRunOptions["newEngine"] = (refuse) => new ScriptedEngine({ refuse }).client;

const REQUESTS = [
  ...Array.from({ length: 14 }, (_, id) => ({
    ...{ id, command: "generate", messages: [{ role: "user", content: "abc" }] },
    ...{ max_new_tokens: 1000, seed: id },
  })),
  { id: 14, command: "evaluate" },
];

/**
 * A run that gets more requests than it has room for when it calls the engine's `method` for the n-th time. Neither this
 * call nor a request goes on before `begun` requests have their adapters.
 */
async function askedRun(
  root: string,
  { method: asked, nth, begun }: { method: EngineMethod; nth: number; begun: number },
  more: Pick<TestRunOptions, "change" | "verify" | "refuse"> = {},
) {
  const pipe = testPipe(), open = new Set<string>(), all_begun = Promise.withResolvers<void>();
  const seen = { most: 0, most_requests: 0, room: 0, beside_best: -1, calls: 0 };
  const requests = () => [...open].filter((name) => name.startsWith("request_")).length;
  const run = await startTestRun({
    root,
    newEngine,
    ...more,
    start: { control: pipe.port },
    refuse(method, request, engine) {
      more.refuse?.(method, request, engine);
      const { adapter } = (request ?? {}) as Partial<EngineMethods["adapter_open"]["request"]>;
      if (method === "load") seen.room = 1 + (request as LoadRequest).demand!.other_adapters;
      if (method === "adapter_open") open.add(adapter!);
      if (method === "adapter_close") open.delete(adapter!);
      if (adapter === "best" && method === "adapter_open") seen.beside_best = requests();
      seen.most = Math.max(seen.most, open.size);
      seen.most_requests = Math.max(seen.most_requests, requests());
      if (requests() === begun) all_begun.resolve();
      // A request that ends before others have begun leaves its room to them.
      if (method === "sequence_open" && adapter?.startsWith("request_")) return all_begun.promise;
      if (method !== asked || ++seen.calls !== nth) return;
      REQUESTS.forEach(pipe.send);
      return all_begun.promise;
    },
  });
  for await (const _ of run.events);
  const answers = (id: number) => pipe.sent.filter((message) => "id" in message && message.id === id);
  return { ended: await run.ended, seen, second: REQUESTS.map(({ id }) => answers(id)[1]!) };
}

Deno.test("requests beyond their room wait, and none of them fails the run", strict, async () => {
  await withFolder(async (root) => {
    const begun = `${root}/begun`, path = `${begun}/runs/test/adapter.gguf`;
    assert.equal(await (await startTestRun({ root: begun, newEngine })).ended, "completed");
    const { ended, seen, second } = await askedRun(
      `${root}/grpo`,
      { method: "train_step", nth: 1, begun: 4 },
      {
        change({ lora, agent }) {
          lora.init_adapter = path;
          Object.assign(agent!, { kl_coefficient: 0.1, kl_reference: "init_adapter", max_update_kl: 1e-3 });
        },
      },
    );
    assert.equal(ended, "completed");
    // The policy, the reference, the policy before the update, and those of four requests: all that the run has room for.
    assert.deepEqual([seen.most_requests, seen.most, seen.room], [4, 7, 7]);
    assert.ok(second.every((answer) => "result" in answer || "error" in answer));
    assert.ok(second.some((answer) => "result" in answer));
  });
});

for (const [name, change] of [["sft", useSft], ["preference", usePreference]] as const) {
  Deno.test(`${name} answers one request at a time`, strict, async () => {
    await withFolder(async (root) => {
      const { ended, seen, second } = await askedRun(root, { method: "train_step", nth: 1, begun: 1 }, {
        change,
      });
      assert.equal(ended, "completed");
      assert.deepEqual([seen.most_requests, seen.most, seen.room], [1, 2, 2]);
      assert.ok(second.every((answer) => "result" in answer || "error" in answer));
      assert.ok(second.some((answer) => "result" in answer));
    });
  });
}

Deno.test("the end of a run opens the best adapter when no request has one", strict, async () => {
  await withFolder(async (root) => {
    // The last of the evaluations, before and after the updates 2 and 3, is not the best.
    const heldout = heldoutByUpdate([1, 1, 3, 0]),
      last = { method: "checkpoint_save", nth: 3, begun: 1 } as const;
    const { ended, seen } = await askedRun(root, last, {
      ...heldout,
      change: ({ output }) => output.adapter = "best",
    });
    assert.equal(ended, "completed");
    assert.deepEqual([seen.calls, seen.beside_best], [3, 0]);
    assert.ok(seen.most_requests > 0, "the run ended before any request was opened");
  });
});
