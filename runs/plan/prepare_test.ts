import assert from "node:assert/strict";
import { loadRunConfig, parseRunConfig } from "../../config/check/load.ts";
import { ServiceError } from "../../core/errors.ts";
import { checkedFile } from "../../core/regular_file.ts";
import { fixturePath } from "../../tests/fixture.ts";
import { withFolder } from "../../tests/folder.ts";
import { configToml } from "../directory/config_identity.ts";
import { prepareModel, type PrepareOptions, prepareRun } from "./prepare.ts";

const model = await fixturePath("models/tiny-agent-q8_0.gguf");
const traces = await fixturePath("models/tiny-agent/sft-traces.jsonl");

const task = (id: string, more: object = {}) =>
  JSON.stringify({
    id,
    user: "Do it.",
    metadata: {
      env: { toolset: "files", files: {}, verify: { command: ["true"], reward_on_success: 1 }, ...more },
    },
  });

interface Given {
  train: string[];
  heldout?: string[];
  /** The text of a chat template file. */
  template?: string;
}

async function prepare(lines: Given, more = "", options: PrepareOptions = {}) {
  const root = await Deno.makeTempDir();
  try {
    await Deno.writeTextFile(`${root}/train.jsonl`, lines.train.join("\n"));
    if (lines.heldout) await Deno.writeTextFile(`${root}/heldout.jsonl`, lines.heldout.join("\n"));
    if (lines.template !== undefined) await Deno.writeTextFile(`${root}/t.jinja`, lines.template);
    const text = `
[run]
algorithm = "agent_grpo"
[model]
path = ${JSON.stringify(model)}
${lines.template === undefined ? "" : 'chat_template = "t.jinja"'}
[agent]
scenarios = "train.jsonl"
updates = 2
scenarios_per_update = 2
[agent.environment]
type = "local"
allow_unsandboxed = true
scenario_toolsets = ["files"]
${lines.heldout ? '[evaluation]\ndata = "heldout.jsonl"' : ""}
${more}`;
    return await prepareRun(parseRunConfig(text, { path: `${root}/run.toml` }), options);
  } finally {
    await Deno.remove(root, { recursive: true });
  }
}

const refused = (lines: Given, expected: RegExp, more = "") =>
  assert.rejects(prepare(lines, more), (error: ServiceError) => {
    assert.match(error.message, expected);
    return error instanceof ServiceError;
  });

Deno.test("a run is prepared from the model's header and the data only", async () => {
  const prepared = await prepare({ train: [task("a"), task("b")], heldout: [task("c")] }, "[checkpoint]");
  assert.equal(prepared.config.training.ctx, 1024);
  assert.deepEqual(prepared.warnings, []);
  assert.match(String(prepared.identity["agent.scenarios"]), /^\d+:[0-9a-f]{64}$/);
});

Deno.test("a scenario without a grader is refused with its line", async () => {
  await refused(
    { train: [task("a"), task("b", { verify: null })] },
    /train\.jsonl:2: nothing can grade scenario "b"; give it metadata\.env\.verify$/,
  );
  await refused(
    { train: [task("a"), task("b")], heldout: [task("c"), task("d", { verify: null })] },
    /heldout\.jsonl:2: nothing can verify scenario "d"; give it metadata\.env\.verify, or leave the scenario out$/,
  );
});

Deno.test("a toolset that is not offered and too few scenarios are refused", async () => {
  await refused(
    { train: [task("a"), task("b", { toolset: "python" })] },
    /train\.jsonl:2, scenario "b": toolset "python" is not offered: add it to agent\.environment\.scenario_toolsets$/,
  );
  await refused(
    { train: [task("a"), task("b")], heldout: [task("c", { toolset: "fiels" })] },
    /heldout\.jsonl:1, scenario "c": there is no toolset "fiels"/,
  );
  await refused(
    { train: [task("a")] },
    /^Cannot use .*train\.jsonl: it has 1 scenario, fewer than agent\.scenarios_per_update \(2\)$/,
  );
});

Deno.test("without updates few scenarios are enough, and each must have a grade", async () => {
  const { config } = await prepare({ train: [task("a")] }, "", { updates: false });
  assert.equal(config.agent!.scenarios_per_update, 2);
  // What is wrong with the scenario is said first.
  await refused({ train: [task("a", { verify: null })] }, /train\.jsonl:1: nothing can grade scenario "a"/);
});

Deno.test("a value that does not fit a derived context is refused before anything starts", async () => {
  const train = [task("a"), task("b")];
  await refused({ train }, /micro_batch_tokens: must be at least/, "[training]\nmicro_batch_tokens = 128");
});

Deno.test("a template that does not render the scenarios is refused with its file", async () => {
  const train = [task("a"), task("b")];
  await refused(
    { train, template: "{{ raise_exception('no users here') }}" },
    /^Cannot render .*train\.jsonl:1 with the chat template of .*t\.jinja: no users here$/,
  );
  const no_results = "{% for m in messages %}{% if m.role == 'tool' %}{{ raise_exception('no results') }}" +
    "{% endif %}{{ m.content }}<|im_end|>{% endfor %}";
  await refused({ train, template: no_results }, /train\.jsonl:1 .*t\.jinja: no results$/);
  await refused(
    { train, template: "{% if %}" },
    /^Cannot render messages with the chat template of .*t\.jinja/,
  );
  await refused({ train, template: " \n" }, /^Cannot use the chat template .*t\.jinja: the file is empty/);
});

Deno.test("a template's refusal of a probe is a warning", async () => {
  const template = "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}" +
    "{% endif %}{{ m.content }}<|im_end|>{% endfor %}";
  const { warnings } = await prepare({ train: [task("a"), task("b")], template });
  const told = warnings.filter(({ field }) => field === "model.chat_template");
  assert.deepEqual(told.map(({ code }) => code), ["template_not_prefix_stable"]);
  assert.match(told[0]!.message, /no system/);
});

Deno.test("rows that are cut are a warning that counts them", async () => {
  const path = "/nowhere/run.toml";
  const text = `
[run]
algorithm = "sft"
[model]
path = ${JSON.stringify(model)}
[sft]
data = ${JSON.stringify(traces)}
[training]
ctx = 400
[checkpoint]
[evaluation]
data = ${JSON.stringify(traces)}
max_examples = 7
`;
  const { warnings } = await prepareRun(parseRunConfig(text, { path }));
  assert.deepEqual(warnings.map(({ code, field }) => [code, field]), [
    ["rows_truncated", "training.ctx"],
    ["rows_truncated", "training.ctx"],
    ["heldout_is_training", "evaluation.data"],
  ]);
  const golden = (await Deno.readTextFile(traces)).trimEnd().split("\n").length;
  assert.match(
    warnings[0]!.message,
    new RegExp(`^\\d+ of ${golden} rows of \\[sft\\] .*, the first in line \\d+$`),
  );
  assert.match(warnings[1]!.message, /^\d+ of 7 rows of \[evaluation\] .*, the first in line \d+$/);
});

Deno.test("held-out data that is the training data is warned about, by path, link or content", async () => {
  const train = [task("a"), task("b")];
  const warned = async (heldout: string[], more?: string) =>
    (await prepare({ train, heldout }, more)).warnings.filter(({ code }) => code === "heldout_is_training");
  assert.deepEqual(await warned([task("a"), task("c")]), []);
  const [warning] = await warned(train);
  assert.equal(warning!.field, "evaluation.data");
  assert.match(warning!.message, /the same as agent\.scenarios/);
  const root = await Deno.makeTempDir();
  try {
    const data = `${root}/traces.jsonl`, link = `${root}/link.jsonl`;
    await Deno.copyFile(traces, data);
    await Deno.symlink(data, link);
    const overrides = [`sft.data=${data}`, `model.path=${model}`, "training.ctx=512"];
    const example = new URL("../../examples/tiny_agent_sft.toml", import.meta.url).pathname;
    for (const heldout of [data, link]) {
      const loaded = await loadRunConfig(example, {
        overrides: [...overrides, `evaluation.data=${heldout}`],
      });
      const { warnings } = await prepareRun(loaded);
      assert.equal(warnings.filter(({ code }) => code === "heldout_is_training").length, 1, heldout);
    }
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});

Deno.test("a verification that nothing protects is warned about, once for each file", async () => {
  const env = { toolset: "files", files: { Makefile: "" }, verify: { command: ["make", "check"] } };
  const gap = (id: string) => task(id, { ...env });
  const { warnings } = await prepare({
    train: [task("a"), gap("b"), gap("c")],
    heldout: [gap("b")],
  });
  const found = warnings.filter(({ code }) => code === "unprotected_verification");
  assert.deepEqual(found.map(({ field }) => field), ["agent.scenarios", "evaluation.data"]);
  assert.match(
    found[0]!.message,
    /verifies scenario "b" \(\S+train\.jsonl:2, and of 1 others\): its verify command names no file, .*set that to \[\]/,
  );
  assert.match(found[1]!.message, /\(\S+heldout\.jsonl:1\): /);
  const example = await prepareRun(await loadRunConfig("examples/tiny_agent_grpo.toml"));
  assert.deepEqual(example.warnings, []);
});

Deno.test("an override is part of the resolved configuration and of a run's identity", async () => {
  const example = new URL("../../examples/tiny_agent_grpo.toml", import.meta.url).pathname;
  const plain = await prepareRun(await loadRunConfig(example));
  const other = await prepareRun(await loadRunConfig(example, { overrides: ["training.lr=3e-6"] }));
  assert.equal(other.config.training.lr, 3e-6);
  assert.match(configToml(other.config), /^lr = 0\.000003$/m);
  const { "training.lr": lr, ...rest } = other.identity;
  const { "training.lr": before, ...same } = plain.identity;
  assert.deepEqual([lr, rest], [3e-6, same]);
  assert.notEqual(lr, before);
});

Deno.test("a run with a client's files takes none whose path has become a link, and opens them as they were checked", () =>
  withFolder(async (root) => {
    const rows = `${root}/rows`, kept = `${root}/kept`;
    await Deno.copyFile(model, `${root}/model`);
    for (const name of ["rows", "secret"]) await Deno.writeTextFile(`${root}/${name}`, '{"text": "a b c"}');
    const text = `
run.algorithm = "sft"
model.path = "${root}/model"
sft.data = "${rows}"`;
    const loaded = parseRunConfig(text, { path: `${root}/run.toml` }), by_client = { by_client: true };
    assert.deepEqual((await prepareRun(loaded)).files, []);
    const { files } = await prepareRun(loaded, by_client);
    assert.deepEqual(files, [await checkedFile(`${root}/model`), await checkedFile(rows)]);
    await Deno.rename(rows, kept);
    await Deno.symlink(`${root}/secret`, rows);
    await prepareRun(loaded);
    const link = { code: "path_not_found", message: /^Cannot read .*rows: it is a link to .*secret/ };
    await assert.rejects(prepareRun(loaded, by_client), link);
    assert.deepEqual((await prepareModel(loaded, by_client)).files, [await checkedFile(`${root}/model`)]);
    await Deno.remove(rows);
    await Deno.rename(kept, rows);
    // The link comes after the check: when the model is read, and when the links of paths are resolved.
    const swaps = { stat: `${root}/model`, realPath: rows } as const;
    for (const [operation, at] of Object.entries(swaps) as ["stat" | "realPath", string][]) {
      const system = Deno[operation] as (path: string | URL) => Promise<never>;
      let calls = 0;
      Deno[operation] = async (path: string | URL) => {
        // The check of a path resolves it twice.
        if (path === at && ++calls > (operation === "stat" ? 0 : 2)) {
          Deno[operation] = system;
          await Deno.rename(rows, kept);
          await Deno.symlink(`${root}/secret`, rows);
        }
        return await system(path);
      };
      const prepared = prepareRun(loaded, by_client);
      if (operation === "stat") {
        await assert.rejects(prepared, { message: `Cannot read ${rows}: another file has taken its place` });
        await Deno.remove(rows);
        await Deno.rename(kept, rows);
      } else assert.equal((await prepared).config.sft!.data, rows);
      Deno[operation] = system;
    }
  }));
