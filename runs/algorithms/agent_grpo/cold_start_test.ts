import assert from "node:assert/strict";
import { testGroup } from "../../../agent/rollout/group_testing.ts";
import type { Group } from "../../../agent/trajectory/group.ts";
import type { CallRecord } from "../../../agent/trajectory/trajectory.ts";
import { ScriptedEngine } from "../../../trainer/engine/scripted_engine_fake.ts";
import { testGrpo } from "../../agent_grpo_testing.ts";
import type { RunWarning } from "../../record/warning.ts";
import { coldStartWarnings } from "./cold_start.ts";

const TOOL = { name: "submit", description: "", parameters: {} };

/** A group of two members, of which the second made these calls in its last turn. */
function group(...malformed: boolean[]): Group {
  const made = { ...testGroup([{}, { step_rewards: [0, 0] }]), tools: [TOOL] };
  made.members[1]!.turns[1]!.calls = malformed.map((malformed) => ({ malformed }) as CallRecord);
  return made;
}

Deno.test("only an update in which no attempt made a valid call is a cold start", () => {
  const [warning, ...more] = coldStartWarnings([group(), group(true, true)]);
  assert.equal(warning!.code, "no_valid_calls");
  assert.match(warning!.message, /the 4 attempts .* no valid tool call \(2 tool calls, all malformed\)/);
  assert.match(warning!.message, /svc collect .*--model.*init_adapter/);
  assert.deepEqual(more, []);
  assert.match(coldStartWarnings([group()])[0]!.message, /\(no tool call\)/);
  assert.deepEqual(coldStartWarnings([group(), group(true, false)]), []);
  // Without tools, or without a turn, nothing is known.
  assert.deepEqual(coldStartWarnings([group(), { ...group(), tools: [] }]), []);
  const untried = group();
  untried.members.forEach((member) => member.turns = []);
  assert.deepEqual(coldStartWarnings([untried]), []);
});

Deno.test("a run warns before its first update trains, also when that update fails, and in no later one", async () => {
  const spoil = (groups: Group[]) => {
    for (const { members } of groups) {
      for (const { turns } of members) {
        turns.forEach(({ calls }) => calls.forEach((call) => call.malformed = true));
      }
    }
  };
  for (const failing of [false, true]) {
    const warned: RunWarning["code"][] = [];
    const { run, order } = await testGrpo({
      newEngine: (refuse) => new ScriptedEngine({ refuse }).client,
      rolled_out(groups) {
        spoil(groups);
        for (const { members } of groups) if (failing) members.forEach((member) => member.status = "failed");
      },
    });
    const warn = ({ code }: RunWarning) => {
      assert.ok(!order().includes("train_step"));
      warned.push(code);
    };
    const first = run(1, 0, { warn });
    if (failing) await assert.rejects(first, { code: "max_dropped_fraction" });
    else await first;
    assert.deepEqual(warned, ["no_valid_calls"]);
    if (!failing) await run(2, undefined, { warn });
    assert.equal(warned.length, 1);
  }
});
