/** The real program trains with a judge behind a server: to its end, and without its key in anything that it leaves. */

import assert from "node:assert/strict";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Behaviour, chatAnswer, withChatServer } from "../core/chat_api/chat_server_fake.ts";
import { gpuTest } from "../kernels/gpu_testing.ts";
import type { RunEvent } from "../runs/record/event.ts";
import { fixturePath } from "./fixture.ts";
import { withFolder } from "./folder.ts";

const CLI = fileURLToPath(new URL("../cli.ts", import.meta.url));
const TASKS = fileURLToPath(new URL("../examples/tiny_agent_reward_tasks.jsonl", import.meta.url));
const CANARY = "sk-canary-0123456789abcdefghijklmnopqrstuvwxyz";

async function writeConfig(root: string, base_url: string): Promise<string> {
  const path = join(root, "run.toml");
  await Deno.writeTextFile(
    path,
    `
[run]
algorithm = "agent_grpo"
directory = "run"
[model]
path = ${JSON.stringify(await fixturePath("models/tiny-agent-f16.gguf"))}
[training]
ctx = 640
[agent]
scenarios = ${JSON.stringify(TASKS)}
updates = 2
scenarios_per_update = 2
group_size = 3
max_turns = 3
max_new_tokens_per_turn = 48
max_rollout_secs = 0
max_dropped_fraction = 1
truncation = "min_reward"
[agent.judge]
base_url = ${JSON.stringify(base_url)}
model = "rule"
api_key_env = "SVC_TEST_RUN_JUDGE_KEY"
cache_path = "judgements.jsonl"
timeout_secs = 600
[agent.environment]
type = "local"
allow_unsandboxed = true
scenario_toolsets = ["files"]
limits = { exec_timeout_secs = 3600 }
[checkpoint]
every_updates = 1
[observe]
`,
  );
  return path;
}

interface Ended {
  events: RunEvent[];
  /** Everything that the program printed. */
  printed: string;
  code: number;
}

async function train(config: string, env: Record<string, string>): Promise<Ended> {
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", CLI, "train", config, "--json"],
    env,
  }).output();
  const out = new TextDecoder().decode(stdout), printed = out + new TextDecoder().decode(stderr);
  const lines = out.split("\n").filter((line) => line.startsWith("{"));
  return { events: lines.map((line) => JSON.parse(line)), printed, code };
}

/** The contents of all files in a folder, each byte as a character. */
async function contents(folder: string): Promise<string> {
  let all = "";
  for await (const { name, isDirectory } of Deno.readDir(folder)) {
    const path = join(folder, name);
    all += isDirectory ? await contents(path) : new TextDecoder("latin1").decode(await Deno.readFile(path));
  }
  return all;
}

/** Scores a state by its length, and repeats the key that it got. */
const byRule: Behaviour = ({ headers, body }) => {
  const { trajectories } = JSON.parse(body.messages[1].content);
  // deno-lint-ignore no-explicit-any -- the document of a request
  const scores = trajectories.map(({ trajectory_id, final_state, messages }: any) => ({
    trajectory_id,
    explanation: `seen with ${headers.get("authorization")}`,
    score: Math.min(1, JSON.stringify(final_state ?? messages).length / 1000),
  }));
  return chatAnswer(JSON.stringify({ scores }));
};

gpuTest(
  "a run trains to its end with a judge, and its key is in nothing that the run leaves",
  () =>
    withFolder((root) =>
      withChatServer([byRule], async ({ base_url, received }) => {
        const config = await writeConfig(root, base_url);
        const { events, printed } = await train(config, { SVC_TEST_RUN_JUDGE_KEY: CANARY });
        const end = events.at(-1)!;
        assert.ok(end.kind === "end" && end.state === "completed", printed.slice(-2000));
        assert.equal(end.deterministic, false);
        const metrics = events.flatMap((event) => event.kind === "metrics" ? [event.values] : []);
        const judged = metrics.flatMap((values) => values["judge/failed_fraction"] ?? []);
        assert.ok(judged.length > 0 && judged.every((share) => share === 0), printed.slice(-2000));
        assert.ok(received.length > 0 && received.length <= 4);
        assert.ok(received.every(({ headers }) => headers.get("authorization") === `Bearer ${CANARY}`));
        const left = await contents(root);
        assert.ok(left.includes("seen with Bearer [key]"), "the explanations are kept");
        for (const text of [printed, left]) assert.ok(!text.includes(CANARY.slice(0, 10)), "the key is not");
      })
    ),
);

Deno.test("a run whose judge has no key is refused by the name of the variable, before anything is loaded", () =>
  withFolder((root) =>
    withChatServer([byRule], async ({ base_url, received }) => {
      const config = await writeConfig(root, base_url);
      const { code, events, printed } = await train(config, { SVC_TEST_RUN_JUDGE_KEY: "" });
      assert.deepEqual([code, events, received], [2, [], []], printed);
      assert.match(
        printed,
        /the environment variable SVC_TEST_RUN_JUDGE_KEY is empty; set it to the key, or leave/,
      );
      await assert.rejects(Deno.stat(join(root, "run")), Deno.errors.NotFound);
    })
  ));
