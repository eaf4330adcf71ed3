import assert from "node:assert/strict";
import { TextChat, turnTokens } from "../../agent/rollout/rollout_fake.ts";
import { withFolder } from "../../tests/folder.ts";
import { ScriptedEngine } from "../../trainer/engine/scripted_engine_fake.ts";
import { eventsOf, ofKind, startTestRun } from "../run_fake.ts";

Deno.test("a run whose first update makes no tool call says so before the update's own events, and once", async () => {
  await withFolder(async (root) => {
    const run = await startTestRun({
      ...{ root, chat: new TextChat(), more: "" },
      newEngine: (refuse) => new ScriptedEngine({ refuse, script: () => turnTokens("hello") }).client,
      change: ({ agent }) => {
        agent!.updates = 2;
      },
    });
    const events = await eventsOf(run);
    assert.equal(await run.ended, "completed");
    const warned = ofKind(events, "warning").filter(({ code }) => code === "no_valid_calls");
    assert.equal(warned.length, 1);
    const kinds = events.map(({ kind }) => kind);
    assert.ok(events.indexOf(warned[0]!) < kinds.indexOf("metrics"));
    assert.match(warned[0]!.message, /made no valid tool call \(no tool call\)/);
  });
});
