import assert from "node:assert/strict";
import { join } from "node:path";
import { composeWorld } from "../../agent/configured.ts";
import { rewardGrader } from "../../agent/grading/reward_grader.ts";
import { RewardProgram } from "../../agent/grading/reward_program.ts";
import { TEST_TOOLS } from "../../agent/rollout/rollout_fake.ts";
import { fakeToolHost } from "../../agent/tools/tool_host_fake.ts";
import { AsyncQueue } from "../../core/async_queue.ts";
import { systemClock } from "../../core/clock.ts";
import { withFolder } from "../../tests/folder.ts";
import { ScriptedEngine } from "../../trainer/engine/scripted_engine_fake.ts";
import { eventsOf, ofKind, startTestRun } from "../run_fake.ts";

/** Rewards by the attempt's number in its group; fails for the first group of the second update. */
const GRADE = `
echo loaded >&2
echo $$ >> processes
while read -r line; do
  id=$(printf %s "$line" | sed 's/^{"id":"\\([^"]*\\)".*/\\1/')
  echo "$id" >> graded
  case "$id" in 2/0/*) echo oops >&2; exit 4;; esac
  echo "{\\"id\\":\\"$id\\",\\"reward\\":\${id##*/}}"
done
`;

Deno.test(
  "a run trains with a reward program, loses what it cannot grade and logs what it says",
  { sanitizeOps: true, sanitizeResources: true },
  async () => {
    await withFolder(async (root) => {
      const workspaces = join(root, "workspaces");
      await Deno.mkdir(workspaces);
      await Deno.writeTextFile(join(root, "grade.sh"), GRADE);
      const messages = new AsyncQueue<string>();
      const program = new RewardProgram({
        ...{ command: ["sh", "grade.sh"], timeout_secs: 60, cwd: root, workspaces, clock: systemClock },
        messages,
      });
      const host = fakeToolHost({
        tools: TEST_TOOLS,
        call: ({ name }) => ({ result: null, reward: null, done: name === "submit" }),
      });
      const world = composeWorld({
        ...{ environments: null, hosts: [host], graders: [rewardGrader(program)], clock: systemClock },
        programs: { messages, close: () => program.close() },
      });
      const run = await startTestRun({
        ...{ root: join(root, "run"), more: "", world },
        newEngine: (refuse) => new ScriptedEngine({ refuse }).client,
      });
      const events = await eventsOf(run);
      assert.equal(await run.ended, "completed");
      await world.close();
      const updates = ofKind(events, "update");
      assert.deepEqual(updates.map(({ lost }) => lost), [{}, { reward_failed: 4 }, {}]);
      assert.equal(updates[1]!.failure?.boundary, "reward");
      // Two groups of four attempts, whose rewards are 0 to 3: without the lost group, which counts as 0.
      assert.deepEqual(updates.map(({ reward_mean }) => reward_mean), [1.5, 0.75, 1.5]);
      const shares = ofKind(events, "metrics").flatMap(({ values }) =>
        values["reward/failed_fraction"] ?? []
      );
      assert.deepEqual(shares, [0, 1 / 2, 0]);
      const said = ofKind(events, "log").filter(({ level }) => level === "info").map(({ message }) =>
        message
      );
      assert.equal(said[0], "the reward program wrote to standard error: loaded");
      assert.ok(said.some((message) => message.endsWith("oops")), said.join());
      const read = async (name: string) => (await Deno.readTextFile(join(root, name))).trim().split("\n");
      assert.equal((await read("processes")).length, 2, "one process, and one after the failure");
      assert.equal((await read("graded")).length, 4 * 5 + 1);
      assert.deepEqual(await Array.fromAsync(Deno.readDir(workspaces)), []);
    });
  },
);
