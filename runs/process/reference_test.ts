import assert from "node:assert/strict";
import type { ResolvedConfig } from "../../config/check/derive.ts";
import { withFolder } from "../../tests/folder.ts";
import type { EngineMethods } from "../../trainer/protocol/protocol.ts";
import { ScriptedEngine } from "../../trainer/engine/scripted_engine_fake.ts";
import { REFERENCE } from "../algorithms/agent_grpo/agent_grpo.ts";
import { startTestRun, testPipe, type TestRunOptions } from "../run_fake.ts";

const newEngine: TestRunOptions["newEngine"] = (refuse) => new ScriptedEngine({ refuse }).client;

Deno.test(
  "the KL term's reference is the initial adapter, in a resumed run too",
  { sanitizeOps: true, sanitizeResources: true },
  async () => {
    await withFolder(async (root) => {
      const begun = `${root}/begun`, path = `${begun}/runs/test/adapter.gguf`;
      assert.equal(await (await startTestRun({ root: begun, newEngine })).ended, "completed");
      const change = ({ lora, agent }: ResolvedConfig) => {
        lora.init_adapter = path;
        Object.assign(agent!, { kl_coefficient: 0.1, kl_reference: "init_adapter" });
      };
      const opened: unknown[] = [], scored: (string | null)[] = [], pipe = testPipe();
      let steps = 0;
      const refuse: TestRunOptions["refuse"] = (method, request) => {
        if (method === "train_step" && ++steps === 1) pipe.send({ id: 1, command: "pause" });
        if (method === "score") scored.push((request as EngineMethods["score"]["request"]).adapter);
        if (method !== "adapter_open") return;
        const { adapter, source } = request as EngineMethods["adapter_open"]["request"];
        if (adapter === REFERENCE) opened.push(source);
      };
      const options = { root: `${root}/warm`, newEngine, change, refuse };
      const first = await startTestRun({ ...options, start: { control: pipe.port } });
      assert.equal(await first.ended, "paused");
      const second = await startTestRun({ ...options, start: { mode: "resume" } });
      assert.equal(await second.ended, "completed");
      assert.deepEqual(opened, [{ type: "file", path }, { type: "file", path }]);
      assert.equal(scored.filter((adapter) => adapter === REFERENCE).length, 3, "once an update");
    });
  },
);
