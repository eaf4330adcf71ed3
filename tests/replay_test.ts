/** A recorded run and its replays: the real program, on the real engine. */

import assert from "node:assert/strict";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { chatAnswer } from "../core/chat_api/chat_server_fake.ts";
import { answerRequest } from "../examples/tiny_agent_environment.ts";
import { gpuTest } from "../kernels/gpu_testing.ts";
import type { RunEvent } from "../runs/record/event.ts";
import { fixturePath } from "./fixture.ts";
import { withFolder } from "./folder.ts";
import { expectReplayed, expectSame, train, trajectories } from "./replayed_run.ts";

/** A recorded run of the tiny agent. @param rest Keys of [agent], and further sections. */
async function writeConfig(root: string, rest: string): Promise<string> {
  const path = join(root, "run.toml");
  await Deno.writeTextFile(
    path,
    `
[run]
algorithm = "agent_grpo"
directory = "recorded"
record = true
[model]
path = ${JSON.stringify(await fixturePath("models/tiny-agent-f16.gguf"))}
[training]
ctx = 640
lr = 3e-3
[observe]
[agent]
max_turns = 3
max_new_tokens_per_turn = 48
truncation = "min_reward"
${rest}`,
  );
  return path;
}

/** A run of two updates whose tasks have a verification. */
async function writeVerifiedConfig(root: string): Promise<string> {
  const scenarios = async (part: string) =>
    JSON.stringify(await fixturePath(`models/tiny-agent/scenarios.${part}.jsonl`));
  return await writeConfig(
    root,
    `scenarios = ${await scenarios("train")}
updates = 2
scenarios_per_update = 2
group_size = 3
[agent.environment]
type = "local"
allow_unsandboxed = true
scenario_toolsets = ["files"]
[evaluation]
data = ${await scenarios("heldout")}
max_examples = 2
[checkpoint]
every_updates = 1
`,
  );
}

/** Attempts and passes of every scenario by update, as the last checkpoint has them. */
async function history(run: string): Promise<unknown> {
  const { state } = JSON.parse(await Deno.readTextFile(join(run, "checkpoints/update_000002/state.json")));
  assert.equal(Object.values<unknown[]>(state.history).flat().length, 4, "two scenarios in each update");
  return state.history;
}

const evaluations = (events: readonly RunEvent[]) =>
  events.flatMap((event) => event.kind === "evaluation" ? [event.scenarios] : []);

const losses = (events: readonly RunEvent[]) =>
  events.flatMap((event) => event.kind === "update" ? [event.loss] : []);

/** What the model sampled: the tokens of all attempts. */
const tokensOf = (lines: readonly unknown[]) =>
  lines.flatMap((line) => (line as { part?: { tokens: number[] } }).part?.tokens ?? []);

gpuTest("a recorded run is replayed to the same bytes, and one update of it with another rate", async () => {
  await withFolder(async (root) => {
    const config = await writeVerifiedConfig(root);
    const recorded = await train(config);
    assert.equal(recorded.code, 0, recorded.error);
    const recording = join(root, "recorded/recordings");
    const names = (await Array.fromAsync(Deno.readDir(recording))).map(({ name }) => name).sort();
    assert.deepEqual(names, [
      "evaluation_000000.jsonl.gz",
      "evaluation_000002.jsonl.gz",
      "update_000001.jsonl.gz",
      "update_000002.jsonl.gz",
    ]);

    const own = await train(config, ["--replay", join(root, "recorded"), "--force"]);
    assert.equal(own.code, 2, own.error);
    assert.match(own.error, /--replay/);

    const replayed = await train(config, [
      ...["--replay", join(root, "recorded"), `run.directory=${join(root, "replayed")}`],
    ]);
    assert.equal(replayed.code, 0, replayed.error);
    await expectSame([join(root, "recorded"), join(root, "replayed")], {
      updates: [1, 2],
      files: ["adapter.gguf", "checkpoints/update_000002/optimizer.safetensors"],
    });
    assert.deepEqual(await history(join(root, "replayed")), await history(join(root, "recorded")));
    assert.deepEqual(evaluations(replayed.events), evaluations(recorded.events));
    assert.equal(evaluations(replayed.events).length, 2);
    const made = (await Array.fromAsync(Deno.readDir(join(root, "replayed")))).map(({ name }) => name);
    assert.ok(!made.includes("recordings"), "a replay is not recorded");

    const forked = await train(config, [
      ...["--fork", join(root, "recorded/checkpoints/update_000001"), "--replay", join(root, "recorded")],
      ...[`run.directory=${join(root, "forked")}`, "training.lr=1e-4"],
    ]);
    assert.equal(forked.code, 0, forked.error);
    assert.deepEqual(
      tokensOf(await trajectories(join(root, "forked"), 2)),
      tokensOf(await trajectories(join(root, "recorded"), 2)),
    );
    assert.deepEqual(losses(forked.events), losses(recorded.events).slice(1));
    const adapters = await Promise.all(
      ["recorded", "forked"].map((run) => Deno.readFile(join(root, run, "adapter.gguf"))),
    );
    assert.notDeepEqual(adapters[0], adapters[1]);
  });
});

/** A run of one update whose tasks have no check of their own, with another world. */
function writeWorldConfig(root: string, world: string): Promise<string> {
  const tasks = fileURLToPath(new URL("../examples/tiny_agent_reward_tasks.jsonl", import.meta.url));
  return writeConfig(
    root,
    `scenarios = ${JSON.stringify(tasks)}
updates = 1
scenarios_per_update = 1
group_size = 3
${world}`,
  );
}

gpuTest(
  "a run in an environment behind a server is replayed without the server",
  () =>
    withFolder(async (root) => {
      const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, answerRequest);
      const base_url = `http://127.0.0.1:${server.addr.port}`;
      const config = await writeWorldConfig(
        root,
        `[agent.environment]\ntype = "http"\nbase_url = "${base_url}"`,
      );
      await expectReplayed(config, { root, gone: () => server.shutdown() });
      await assert.rejects(fetch(base_url), "nothing answers there");
    }),
);

gpuTest(
  "a run with a judge behind a server is replayed without the server and its key",
  () =>
    withFolder(async (root) => {
      const key = "SVC_TEST_REPLAY_JUDGE_KEY";
      let asked = 0;
      const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
        asked++;
        const { trajectories } = JSON.parse((await request.json()).messages[1].content);
        // deno-lint-ignore no-explicit-any -- the document of a request
        const scores = trajectories.map(({ trajectory_id }: any, i: number) => ({
          ...{ trajectory_id, explanation: "by its place", score: i / trajectories.length },
        }));
        return chatAnswer(JSON.stringify({ scores }));
      });
      const config = await writeWorldConfig(
        root,
        `
[agent.judge]
base_url = "http://127.0.0.1:${server.addr.port}/v1"
model = "by-place"
api_key_env = "${key}"
timeout_secs = 600
[agent.environment]
type = "local"
allow_unsandboxed = true
scenario_toolsets = ["files"]
`,
      );
      const env = { [key]: "sk-canary" };
      const events = await expectReplayed(config, { root, gone: () => server.shutdown(), env });
      assert.ok(asked > 0);
      const end = events.at(-1)!;
      assert.ok(end.kind === "end" && !end.deterministic, "another answer may come next time");
    }),
);
