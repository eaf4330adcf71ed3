/** The key at which a refused plan tells what is wrong with a file of data. */

import assert from "node:assert/strict";
import { checkedFile } from "../../core/regular_file.ts";
import { encodeGgufHeader } from "../../trainer/formats/gguf_writer.ts";
import { ASSUMED_CARD } from "../../tests/assumed_device.ts";
import { fixturePath } from "../../tests/fixture.ts";
import { withFolder } from "../../tests/folder.ts";
import { JOB_WORK } from "../jobs/job_work.ts";
import { planRequest } from "./plan_request.ts";

const model = await fixturePath("models/tiny-agent-f16.gguf");
const target = { card: ASSUMED_CARD, vram_bytes: null, ram_bytes: 2 ** 40 };

const task = (id: string) =>
  JSON.stringify({ id, user: "u", metadata: { env: { verify: { command: ["true"] } } } });
const SCENARIOS = [1, 2, 3, 4].map((i) => task(`s${i}`)).join("\n");
const AGENT = `updates = 1
[agent.environment]
type = "local"
allow_unsandboxed = true
tools.default = "files"`;

/** For each algorithm its key of data, good rows, and the other lines of its section. */
const ALGORITHMS: [name: string, key: string, rows: string, more: string][] = [
  ["sft", "sft.data", '{"text": "a b c"}', ""],
  ["preference", "preference.data", '{"prompt": "a", "chosen": "b", "rejected": "c"}', ""],
  ["agent_grpo", "agent.scenarios", SCENARIOS, AGENT],
];

for (const [algorithm, key, rows, more] of ALGORITHMS) {
  Deno.test(`what is wrong with the data of ${algorithm} is told at the key of its file`, () =>
    withFolder(async (root) => {
      const [section, name] = key.split(".");
      // The held-out file's path begins the other's, and so stands in messages about both.
      const text = `run.algorithm = "${algorithm}"
model.path = ${JSON.stringify(model)}
evaluation.data = "rows.json"
[${section}]
${name} = "rows.jsonl"
${more}`;
      const refusedAt = async (training: string, heldout: string) => {
        await Deno.writeTextFile(`${root}/rows.jsonl`, training);
        await Deno.writeTextFile(`${root}/rows.json`, heldout);
        const answer = await planRequest({
          ...{ text, path: `${root}/run.toml`, recipe: null, target, observe_target_updates: 1 },
          ...{ files_only: false, fork: null },
        });
        return "refused" in answer
          ? answer.refused.problems.map(({ key, message }) => [key, message.includes(`${root}/rows.json:1`)])
          : "planned";
      };
      assert.equal(await refusedAt(rows, rows), "planned");
      assert.deepEqual(await refusedAt("{", rows), [[key, false]]);
      assert.deepEqual(await refusedAt(rows, "{"), [["evaluation.data", true]]);
    }));
}

Deno.test("a model without a metadata key is told at the key of its file, not at that of its metadata", () =>
  withFolder(async (root) => {
    const metadata = new Map([["general.architecture", { type: "string" as const, value: "qwen3" }]]);
    await Deno.writeFile(`${root}/m.gguf`, encodeGgufHeader(metadata, []));
    const answer = await planRequest({
      text: 'run.algorithm = "sft"\nmodel.path = "m.gguf"\nsft.data = "rows.jsonl"',
      ...{ path: `${root}/run.toml`, recipe: null, target, observe_target_updates: 1 },
      ...{ files_only: false, fork: null },
    });
    assert.ok("refused" in answer);
    const { problems } = answer.refused;
    assert.deepEqual(problems.map(({ key }) => key), ["model.path"]);
    assert.match(problems[0]!.message, /^Cannot read .*m\.gguf: the metadata key .* is missing/);
  }));

Deno.test("a planning job refuses a file that has taken the place of a checked one, at its key", () =>
  withFolder(async (root) => {
    const names = { "sft.data": "rows", "evaluation.data": "heldout", "model.chat_template": "template" };
    const write = (name: string) => Deno.writeTextFile(`${root}/${name}`, `{"text": "a b c"}`);
    for (const name of [...Object.values(names), "secret"]) await write(name);
    const keys = Object.entries(names).map(([key, name]) => `${key} = "${name}"\n`).join("");
    const files = await Promise.all(Object.values(names).map((name) => checkedFile(`${root}/${name}`)));
    const plan = () =>
      JOB_WORK.plan_run({
        text: `run.algorithm = "sft"\nmodel.path = ${JSON.stringify(model)}\n${keys}`,
        ...{ path: `${root}/run.toml`, recipe: null, target, observe_target_updates: 1 },
        ...{ files_only: false, fork: null, files },
      });
    assert.ok("planned" in await plan());
    for (const [key, name] of Object.entries(names)) {
      await Deno.rename(`${root}/${name}`, `${root}/kept`);
      await Deno.symlink(`${root}/secret`, `${root}/${name}`);
      const answer = await plan();
      assert.ok("refused" in answer, key);
      assert.deepEqual(answer.refused.problems.map(({ key }) => key), [key]);
      assert.match(answer.refused.problems[0]!.message, /another file has taken its place$/);
      await Deno.remove(`${root}/${name}`);
      await Deno.rename(`${root}/kept`, `${root}/${name}`);
    }
  }));
