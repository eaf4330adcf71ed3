import assert from "node:assert/strict";
import { rewardedGroup } from "../agent/rollout/group_testing.ts";
import { chatAnswer, type ChatServer, withChatServer } from "../core/chat_api/chat_server_fake.ts";
import { readScenarios } from "../data/scenario.ts";
import { writeObserved } from "../runs/views/observed_testing.ts";
import type { ScenarioView } from "../runs/views/shapes.ts";
import { withFolder } from "../tests/folder.ts";
import { runSvc } from "./context_fake.ts";

const GRPO = new URL("../examples/tiny_agent_grpo.toml", import.meta.url).pathname;

const UNGRADED =
  "svc: nothing in this configuration can grade the scenarios; add [agent.reward] or [agent.judge], " +
  "or give each of them metadata.env.verify\n";

/** Writes a configuration whose scenarios do not exist yet. */
async function writeConfig(root: string, base_url: string, more = ""): Promise<string> {
  const text = (await Deno.readTextFile(GRPO)).replace(/^scenarios = .*$/m, 'scenarios = "new.jsonl"');
  await Deno.writeTextFile(
    `${root}/run.toml`,
    `${text}\n[agent.scenario_generation]\nmodel = "writer"\nbase_url = "${base_url}"\ncount = 10\n${more}`,
  );
  return `${root}/run.toml`;
}

/** An endpoint that writes ten tasks, and a configuration for it. */
function withWriter(
  body: (given: ChatServer & { root: string; config: string }) => Promise<void>,
  more = "",
) {
  const scenarios = Array.from(
    { length: 10 },
    (_, n) => ({ task: `Write ${n} to file${n} now${n}`, difficulty: n % 5 + 1 }),
  );
  return withFolder((root) =>
    withChatServer(
      [() => chatAnswer(JSON.stringify({ scenarios }))],
      async (server) =>
        await body({ ...server, root, config: await writeConfig(root, server.base_url, more) }),
    )
  );
}

Deno.test("scenarios are written where the configuration expects them, once", () =>
  withWriter(async ({ root, config, received }) => {
    const { code, out, err } = await runSvc("scenarios", "generate", config);
    assert.deepEqual([code, err], [0, UNGRADED]);
    assert.match(
      out,
      /^10 scenarios of difficulty 1 to 5 \(2, 2, 2, 2, 2\): .*new\.jsonl\n1 request, 0 near-dup/,
    );
    assert.equal((await readScenarios(`${root}/new.jsonl`)).length, 10);
    const [{ body }] = received as [typeof received[0]];
    assert.equal(body.model, "writer");
    assert.equal(body.response_format.json_schema.name, "scenarios");
    for (const tool of ["read_file", "write_file", "list_dir", "submit"]) {
      assert.ok(body.messages[1].content.includes(`"${tool}"`), tool);
    }
    const again = await runSvc("scenarios", "generate", config);
    assert.equal(again.code, 2);
    assert.match(again.err, /agent\.scenarios exists; name another file with --out/);
    assert.equal((await runSvc("scenarios", "generate", config, "--out", `${root}/more.jsonl`)).code, 0);
    const refused = await runSvc("scenarios", "generate", config, "--out", `${root}/more.jsonl`);
    assert.match(refused.err, /it exists; --force replaces it/);
    const forced = ["--out", `${root}/more.jsonl`, "--force", "--count", "5", "--seed", "9"];
    assert.equal((await runSvc("scenarios", "generate", config, ...forced)).code, 0);
    assert.equal((await readScenarios(`${root}/more.jsonl`)).length, 5);
    for (const out of ["run.toml", "new.jsonl"]) {
      const { code } = await runSvc("scenarios", "generate", config, "--out", `${root}/${out}`, "--force");
      assert.equal(code, 2, out);
    }
    assert.equal(received.length, 3);
  }));

Deno.test("--dry-run prints the request, sends nothing, writes nothing and needs no key", () =>
  withWriter(async ({ root, config, received }) => {
    const { code, out, err } = await runSvc("scenarios", "generate", config, "--dry-run");
    assert.deepEqual([code, err], [0, UNGRADED], "before anything is sent");
    assert.match(out, /^system:\nYou write tasks .*\nuser:\nWrite 10 different tasks/);
    assert.match(out, /- 2 of difficulty 5\n/);
    assert.equal(received.length, 0);
    await assert.rejects(Deno.stat(`${root}/new.jsonl`), Deno.errors.NotFound);
    const asked = await runSvc("scenarios", "generate", config);
    assert.equal(asked.code, 2);
    assert.match(asked.err, /the environment variable SVC_TEST_NO_SUCH_KEY is not set/);
    assert.equal(received.length, 0);
  }, 'api_key_env = "SVC_TEST_NO_SUCH_KEY"'));

Deno.test("a configuration that can grade the scenarios is not warned about", () =>
  withWriter(async ({ config }) => {
    const { code, err } = await runSvc("scenarios", "generate", config);
    assert.deepEqual([code, err], [0, ""]);
  }, '[agent.reward]\ncommand = ["true"]'));

Deno.test("an endpoint that fails leaves what was written before, and the command fails", () =>
  withFolder(async (root) => {
    const scenarios = Array.from(
      { length: 4 },
      (_, n) => ({ task: `Sort${n} list${n} again${n}`, difficulty: n + 1 }),
    );
    const behaviours = [
      () => chatAnswer(JSON.stringify({ scenarios })),
      () => Response.json({ error: { message: "no credit" } }, { status: 402 }),
    ];
    await withChatServer(behaviours, async ({ base_url }) => {
      const config = await writeConfig(root, base_url);
      const { code, err } = await runSvc("scenarios", "generate", config);
      assert.equal(code, 1);
      assert.match(
        err,
        /\nsvc: 4 of 10 scenarios: Cannot ask the model of \[agent\.scenario_generation\].*no credit/,
      );
      assert.equal((await readScenarios(`${root}/new.jsonl`)).length, 4);
    });
  }));

Deno.test("answers that cannot be used are the reason why there are too few scenarios", () =>
  withFolder((root) =>
    withChatServer([() => chatAnswer("I would rather not.")], async ({ base_url }) => {
      const { code, err } = await runSvc("scenarios", "generate", await writeConfig(root, base_url));
      assert.equal(code, 1);
      assert.match(
        err,
        /: 0 of 10 scenarios: 3 answers could not be used, the last one because it is not JSON/,
      );
    })
  ));

Deno.test("a configuration without the section, an address or tools is refused", () =>
  withFolder(async (root) => {
    const { code, err } = await runSvc("scenarios", "generate", GRPO);
    assert.equal(code, 2);
    assert.match(err, /has no \[agent\.scenario_generation\]/);
    const config = await writeConfig(root, "http://127.0.0.1:9/v1");
    await Deno.writeTextFile(config, (await Deno.readTextFile(config)).replace(/^base_url.*$/m, ""));
    const without = await runSvc("scenarios", "generate", config);
    assert.deepEqual([without.code, /base_url is missing/.test(without.err)], [2, true]);
  }));

/** A scenario that passes always but in the first update, and one that never passes. */
const historyGroups = (update: number) => [
  { ...rewardedGroup(update === 1 ? [1, 0] : [1, 1]), update, line: 1, scenario: "copy" },
  { ...rewardedGroup([0, 0], 1), update, line: 2, scenario: "write" },
];

Deno.test("the history of a run's scenarios has the passes of every update", () =>
  withFolder(async (root) => {
    await writeObserved(`${root}/trajectories`, { updates: 10, groups: historyGroups });
    const { code, out, err } = await runSvc("scenarios", "history", root);
    assert.deepEqual([code, err], [0, ""]);
    const [copy, write] = out.split("\n");
    const shown = (row: string) => [3, 4, 5, 6, 7, 8, 9, 10].map((update) => `${update}: ${row}`).join("  ");
    assert.equal(copy, `copy      19/20  … ${shown("2/2")}`);
    assert.equal(write, `write      0/20  … ${shown("0/2")}`);
    assert.equal((await runSvc("scenarios", "history", `${root}/trajectories`)).out, out);

    const { out: document } = await runSvc("scenarios", "history", root, "--json", "--sort");
    const scenarios: ScenarioView[] = JSON.parse(document);
    assert.deepEqual(scenarios.map(({ scenario }) => scenario), ["write", "copy"]);
    assert.deepEqual(scenarios[1]!.updates.map(({ pass_rate }) => pass_rate), [0.5, ...Array(9).fill(1)]);
  }));

Deno.test("there is no history without trajectories", () =>
  withFolder(async (root) => {
    const { code, err } = await runSvc("scenarios", "history", root);
    assert.equal(code, 2);
    assert.match(err, /it has no trajectories; name the folder of a run with \[observe\]/);
  }));
