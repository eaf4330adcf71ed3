/** The real program trains with judges: one behind a server, and its own base model. */

import assert from "node:assert/strict";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { localSchema, longestAnswer } from "../agent/judge/local_judge.ts";
import { readAnswer } from "../agent/judge/ruler_answer.ts";
import { type Behaviour, CANARY, chatAnswer, withChatServer } from "../core/chat_api/chat_server_fake.ts";
import { Rng, rngKey } from "../core/random.ts";
import { gpuTest } from "../kernels/gpu_testing.ts";
import type { RunEvent } from "../runs/record/event.ts";
import { ofKind } from "../runs/run_fake.ts";
import { openGguf } from "../trainer/formats/gguf.ts";
import { compileSchema } from "../trainer/grammar/grammar.ts";
import { walk, walkedVocabulary } from "../trainer/grammar/schema_walk_testing.ts";
import { readTokenizer } from "../trainer/tokenizer/read_tokenizer.ts";
import { fixturePath } from "./fixture.ts";
import { withFolder } from "./folder.ts";
import { assertSameRuns, configIn, isUpdate } from "./killed_run.ts";
import { CLI, JUDGED, trainSmall, writeSmallAgent } from "./small_agent.ts";

const writeHosted = (root: string, base_url: string) =>
  writeSmallAgent(root, {
    ...JUDGED,
    "agent.updates": 1,
    "agent.judge.base_url": base_url,
    "agent.judge.model": "rule",
    "agent.judge.api_key_env": "SVC_TEST_RUN_JUDGE_KEY",
    "agent.judge.cache_path": "judgements.jsonl",
  });

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

/** The values of a metric, by update. */
const metric = (events: readonly RunEvent[], name: string) =>
  ofKind(events, "metrics").flatMap(({ values }) => values[name] ?? []);

gpuTest(
  "a run trains to its end with a judge, and its key is in nothing that the run leaves",
  () =>
    withFolder((root) =>
      withChatServer([byRule], async ({ base_url, received }) => {
        const config = await writeHosted(root, base_url);
        const { events, printed } = await trainSmall(config, { env: { SVC_TEST_RUN_JUDGE_KEY: CANARY } });
        const end = events.at(-1)!;
        assert.ok(end.kind === "end" && end.state === "completed", printed.slice(-2000));
        assert.equal(end.deterministic, false);
        const failed = metric(events, "judge/failed_fraction");
        assert.ok(failed.length > 0 && failed.every((share) => share === 0), printed.slice(-2000));
        assert.ok(received.length > 0 && received.length <= 2);
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
      const config = await writeHosted(root, base_url);
      const { code, events, printed } = await trainSmall(config, { env: { SVC_TEST_RUN_JUDGE_KEY: "" } });
      assert.deepEqual([code, events, received], [2, [], []], printed);
      assert.match(
        printed,
        /the environment variable SVC_TEST_RUN_JUDGE_KEY is empty; set it to the key, or leave/,
      );
      await assert.rejects(Deno.stat(join(root, "agent_grpo")), Deno.errors.NotFound);
    })
  ));

gpuTest(
  "a run is judged by its own base model without a network, its replay asks nobody, and a killed one ends with its bytes",
  () =>
    withFolder(async (root) => {
      const keys = { ...JUDGED, "agent.judge.type": "local", "agent.scenarios_per_update": 1 };
      const config = await configIn(root, "whole", { ...keys, "run.record": true }), flags = ["--deny-net"];
      const { events, printed } = await trainSmall(config, { flags });
      const end = events.at(-1)!;
      assert.ok(end.kind === "end" && end.state === "completed", printed.slice(-2000));
      assert.equal(end.deterministic, true);
      assert.deepEqual(metric(events, "judge/failed_fraction"), [0, 0]);
      assert.equal(metric(events, "judge/degenerate_group_fraction").length, 2);
      const tokens = metric(events, "judge/tokens");
      assert.ok(tokens.length === 2 && tokens.every((count) => count > 300), tokens.join());
      const rewards = (all: readonly RunEvent[]) => ofKind(all, "update").flatMap(({ groups }) => groups);
      const scores = rewards(events).flatMap(({ rewards }) => rewards);
      assert.ok(scores.length === 6 && scores.every((score) => score! > 0 && score! < 1), scores.join());
      assert.ok(new Set(scores).size > 1, "the tiny model tells some attempts apart");
      assert.ok(ofKind(events, "update").some(({ optimizer_steps }) => optimizer_steps > 0));

      const recorded = `${root}/whole/run`, directory = `run.directory=${root}/replayed`;
      const args = [directory, "run.record=false", "--replay", recorded];
      const replayed = await trainSmall(config, { flags, args });
      assert.equal(replayed.code, 0, replayed.printed.slice(-2000));
      assert.deepEqual(rewards(replayed.events), rewards(events));
      assert.deepEqual(metric(replayed.events, "judge/tokens"), tokens);
      const adapter = (run: string) => Deno.readFile(`${run}/adapter.gguf`);
      assert.deepEqual(await adapter(`${root}/replayed`), await adapter(recorded));

      const killed = await configIn(root, "killed", keys);
      // As its first checkpoint is written.
      assert.notEqual((await trainSmall(killed, { killAt: isUpdate(1) })).code, 0);
      const last = await trainSmall(killed, { args: ["--resume"] });
      assert.equal(last.code, 0, last.printed);
      await assertSameRuns(root, 2);
    }),
);

gpuTest(
  "svc judge eval measures the base model of a configuration, and finds the same again",
  () =>
    withFolder(async (root) => {
      const examples = fileURLToPath(new URL("../examples/", import.meta.url));
      const [group] = (await Deno.readTextFile(`${examples}tiny_agent_judged.jsonl`)).split("\n");
      await Deno.writeTextFile(`${root}/group.jsonl`, group!);
      const evaluated = async () => {
        const config = `${examples}tiny_agent_local_judge.toml`, fixtures = `${root}/group.jsonl`;
        const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
          args: ["run", "-A", "--deny-net", CLI, "judge", "eval", config, "--fixtures", fixtures, "--json"],
        }).output();
        assert.equal(code, 0, new TextDecoder().decode(stderr));
        return JSON.parse(new TextDecoder().decode(stdout));
      };
      const first = await evaluated(), { fixtures: [{ labels, scores }], failed, tokens } = first;
      assert.deepEqual([failed, labels.length, scores.length], [[], 3, 2]);
      assert.ok(tokens > 1000 && scores.flat().every((score: number) => score > 0 && score < 1));
      assert.deepEqual(await evaluated(), first);
    }),
);

Deno.test("every answer that a local judge's mask allows can be used, and has room", async () => {
  using file = await openGguf(await fixturePath("models/tiny-agent-f16.gguf"));
  const vocabulary = walkedVocabulary(readTokenizer(file));
  for (const [count, chars] of [[1, 200], [2, 0], [3, 7], [12, 30]] as const) {
    const ids = Array.from({ length: count }, (_, i) => `${i + 1}`);
    const grammar = compileSchema(JSON.stringify(localSchema(ids, chars)), vocabulary.table.arena);
    for (let seed = 0; seed < 20; seed++) {
      const text = walk(vocabulary, grammar, new Rng(rngKey(seed, "walk", count))),
        read = readAnswer(text, ids);
      assert.ok("scores" in read && read.scores.size === count, text);
      for (const { score, explanation } of read.scores.values()) {
        assert.ok(score > 0 && score < 1 && explanation.length <= chars, text);
      }
      assert.ok(new TextEncoder().encode(text).length < longestAnswer(ids, chars), text);
    }
    const entries = ids.map((trajectory_id) => ({
      trajectory_id,
      explanation: "~".repeat(chars),
      score: 0.99,
    }));
    const longest = ` ${JSON.stringify({ scores: entries }).replaceAll(/([:,])/g, "$1 ")}`;
    assert.equal(longest.length + 1, longestAnswer(ids, chars), "with every space, and a stop token");
  }
});
