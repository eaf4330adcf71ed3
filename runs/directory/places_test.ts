import assert from "node:assert/strict";
import { dirname, join } from "node:path";
import { describeKeys } from "../../config/describe.ts";
import { parseRunConfig } from "../../config/check/load.ts";
import { isNotBuilt } from "../../config/check/not_built.ts";
import type { ServiceError } from "../../core/errors.ts";
import { withFolder } from "../../tests/folder.ts";
import { testConfig } from "../config_testing.ts";
import { findCollisions, type Place, refuseCollisions, withRealPaths } from "./places.ts";

const strict = { sanitizeOps: true, sanitizeResources: true };

/** All path keys of this build, with values that do not collide. */
const PATHS: Record<string, string> = {
  "run.directory": "run",
  "model.path": "in/model.gguf",
  "model.chat_template": "in/chat.jinja",
  "lora.init_adapter": "in/start.gguf",
  "sft.data": "in/rows.jsonl",
  "preference.data": "in/pairs.jsonl",
  "agent.mcp_config": "in/mcp.json",
  "agent.scenarios": "in/scenarios.jsonl",
  "evaluation.data": "in/heldout.jsonl",
  "agent.judge.cache_path": "out/judgements.jsonl",
  "output.path": "out/adapter.gguf",
  "output.peft_dir": "out/peft",
  "checkpoint.directory": "out/checkpoints",
  "observe.directory": "out/observed",
  "metrics.csv": "out/metrics.csv",
};
const CONFIGURATION = "test.toml";
const INPUTS = Object.keys(PATHS).filter((key) => PATHS[key]!.startsWith("in/"));
const OUTPUTS = Object.keys(PATHS).filter((key) => !INPUTS.includes(key));

/** The loaded configuration in `root`, with some paths changed. */
function loaded(root: string, changes: Record<string, string> = {}) {
  const path = `${root}/${CONFIGURATION}`;
  const lines = Object.entries({ ...PATHS, ...changes }).map(([key, value]) => {
    return `${key} = ${JSON.stringify(value)}`;
  });
  const text = `
run.algorithm = "agent_grpo"
agent.updates = 1
agent.judge.base_url = "http://127.0.0.1:1"
agent.judge.model = "m"
agent.environment = { type = "local", allow_unsandboxed = true, scenario_toolsets = ["files"] }
${lines.join("\n")}`;
  return parseRunConfig(text, { path });
}

/** Creates all inputs with different contents. */
async function makeInputs(root: string): Promise<void> {
  await Deno.mkdir(`${root}/in`);
  await Deno.writeTextFile(`${root}/${CONFIGURATION}`, "");
  for (const key of INPUTS) await Deno.writeTextFile(`${root}/${PATHS[key]}`, key);
}

async function refusal(root: string, changes: Record<string, string>): Promise<string> {
  return await refuseCollisions(loaded(root, changes)).then(
    () => "",
    (error: ServiceError) => {
      assert.equal(error.code, "config_invalid");
      return error.message;
    },
  );
}

Deno.test("all paths of the configuration in this build are checked", () => {
  const keys = describeKeys().filter(({ key, path }) => path && !isNotBuilt(key)).map(({ key }) => key);
  assert.deepEqual(keys.toSorted(), Object.keys(PATHS).toSorted());
});

Deno.test(
  "no output may be an input under any name, and both keys are named",
  strict,
  () =>
    withFolder(async (root) => {
      await makeInputs(root);
      await refuseCollisions(loaded(root));
      for (const output of OUTPUTS) {
        for (const input of [...INPUTS, "the configuration"]) {
          const path = PATHS[input] ?? CONFIGURATION;
          const names: Record<string, string> = {
            itself: path,
            "linked folder": join(dirname(path), "linked", path),
            link: "link",
            "hard link": "hard",
          };
          for (const [name, value] of Object.entries(names)) {
            const linked = `${root}/${dirname(path)}/linked`;
            await Deno.symlink(root, linked);
            await Deno.symlink(path, `${root}/link`);
            await Deno.link(`${root}/${path}`, `${root}/hard`);
            const message = await refusal(root, { [output]: value });
            const told =
              `Cannot use ${root}/${value}: ${output} and ${input} are the same file; name another ${output}`;
            assert.ok(message.includes(told), `${output}, ${input}, ${name}: ${message}`);
            for (const made of [linked, `${root}/link`, `${root}/hard`]) await Deno.remove(made);
          }
        }
      }
    }),
);

Deno.test(
  "no output may be another output, even before they exist",
  strict,
  () =>
    withFolder(async (root) => {
      await makeInputs(root);
      await Deno.symlink(root, `${root}/linked`);
      for (const a of OUTPUTS) {
        for (const b of OUTPUTS.filter((key) => key !== a)) {
          const message = await refusal(root, { [a]: `linked/${PATHS[b]}` });
          assert.match(message, /are the same (file|folder); name another [a-z]+(\.[a-z_]+)+$/, `${a}, ${b}`);
          assert.ok(message.includes(a) && message.includes(b), message);
        }
      }
    }),
);

Deno.test(
  "no input may be inside a replaced output or have a run's own names",
  strict,
  () =>
    withFolder(async (root) => {
      await makeInputs(root);
      const refused: [string, string, string][] = [
        ["output.path", "run/run.json", "run.directory"],
        ["output.path", "run/checkpoints/update_000001/adapter.gguf", "run.directory"],
        ["metrics.csv", "run/log.txt", "run.directory"],
        ["metrics.csv", "run/workspaces/x.csv", "run.directory"],
        ["output.peft_dir", "run/trajectories", "run.directory"],
        ["checkpoint.directory", "run/trajectories", "run.directory"],
        ["checkpoint.directory", "run/checkpoints/mine", "run.directory"],
        ["lora.init_adapter", "run/start.gguf", "run.directory"],
        ["lora.init_adapter", "run/checkpoints/update_000004/adapter.gguf", "run.directory"],
        ["agent.scenarios", "run/trajectories/update_000001.jsonl", "run.directory"],
        ["lora.init_adapter", "out/checkpoints/update_000004/adapter.gguf", "checkpoint.directory"],
        ["agent.scenarios", "out/checkpoints/.svc-replaced-update_000004/x.jsonl", "checkpoint.directory"],
        ["agent.scenarios", "out/checkpoints/.update_000004.replaced/x.jsonl", "checkpoint.directory"],
        ["agent.scenarios", "out/observed/index.jsonl", "observe.directory"],
        ["model.path", "out/peft/model.gguf", "output.peft_dir"],
        ["metrics.csv", "out/peft/metrics.csv", "output.peft_dir"],
        ["run.directory", "out/peft/run", "output.peft_dir"],
        ["evaluation.data", "out/.svc-replaced-peft/x.jsonl", "output.peft_dir"],
        ["metrics.csv", "out/.svc-partial-adapter.gguf", "output.path"],
        ["lora.init_adapter", "out/adapter_best.gguf", "output.path"],
        ["lora.init_adapter", "out/adapter_last.gguf", "output.path"],
      ];
      for (const [key, path, other] of refused) {
        const message = await refusal(root, { [key]: path });
        assert.ok(
          message.startsWith(`Cannot load ${root}/${CONFIGURATION}: `),
          `${key} = ${path}: ${message}`,
        );
        assert.match(
          message,
          new RegExp(
            `${CONFIGURATION}:\\d+: Cannot use .*: ${key} (lies in|has a name that the run takes with) ${other}`,
          ),
        );
      }
      const taken: [string, string][] = [
        ["output.path", "run/adapter.gguf"],
        ["output.peft_dir", "run/peft"],
        ["metrics.csv", "run/metrics.csv"],
        ["checkpoint.directory", "run/checkpoints"],
        ["observe.directory", "run/trajectories"],
        ["model.path", "run/model.gguf"],
        ["agent.scenarios", "out/checkpoints/scenarios.jsonl"],
        ["run.directory", "."], // init_adapter lies below it, but so does the configuration
      ];
      for (const [key, path] of taken) {
        assert.equal(await refusal(root, { [key]: path }), "", `${key} = ${path}`);
      }
    }),
);

Deno.test(
  "an input's link is not replaced either, although its target lies elsewhere",
  strict,
  () =>
    withFolder(async (root) => {
      await makeInputs(root);
      await Deno.mkdir(`${root}/out/peft`, { recursive: true });
      await Deno.symlink("../../in/model.gguf", `${root}/out/peft/model.gguf`);
      assert.match(
        await refusal(root, { "model.path": "out/peft/model.gguf" }),
        /model\.path lies in output\.peft_dir/,
      );
    }),
);

Deno.test(
  "an input folder may not contain an output, and two inputs may be the same",
  strict,
  () =>
    withFolder(async (root) => {
      const parent: Place = { key: "--fork", path: `${root}/parent/update_000004`, kind: "input_folder" };
      const file: Place = { key: "output.path", path: `${parent.path}/adapter.gguf`, kind: "file" };
      const run: Place = { key: "run.directory", path: `${root}/parent`, kind: "run" };
      const [collision, ...none] = await findCollisions([parent, file, run]);
      assert.deepEqual([collision!.keys, none], [["output.path", "--fork"], []]);
      assert.match(collision!.message, /output\.path lies in --fork/);
      const data: Place = { key: "agent.scenarios", path: `${root}/x`, kind: "input_file" };
      assert.deepEqual(await findCollisions([data, { ...data, key: "evaluation.data" }]), []);
    }),
);

Deno.test(
  "a resolved configuration gets real paths, and its outputs keep their own names",
  strict,
  () =>
    withFolder(async (given) => {
      const root = await Deno.realPath(given);
      await Deno.mkdir(`${root}/blobs`);
      await Deno.mkdir(`${root}/real`);
      await Deno.writeTextFile(`${root}/blobs/3f`, "weights");
      await Deno.symlink("../blobs/3f", `${root}/real/model.gguf`);
      await Deno.symlink("real", `${root}/linked`);
      const config = testConfig(`${root}/linked`, '[checkpoint]\n[output]\npeft_dir = "peft"');
      config.output.path = `${root}/linked/model.gguf`;
      const before = structuredClone(config);
      const real = await withRealPaths(config);
      assert.deepEqual(config, before);
      assert.equal(real.model.path, `${root}/blobs/3f`);
      assert.equal(real.agent!.scenarios, `${root}/real/scenarios.jsonl`);
      assert.equal(real.run.directory, `${root}/real/runs/test`);
      assert.equal(real.checkpoint!.directory, `${root}/real/runs/test/checkpoints`);
      assert.equal(real.output.peft_dir, `${root}/real/peft`);
      assert.equal(real.output.path, `${root}/real/model.gguf`);
      assert.deepEqual({ ...real, model: 0, agent: 0, run: 0, checkpoint: 0, output: 0 }, {
        ...before,
        model: 0,
        agent: 0,
        run: 0,
        checkpoint: 0,
        output: 0,
      });
    }),
);

Deno.test(
  "a fork in its parent's folder is refused once, with the keys that name the run's folder",
  strict,
  () =>
    withFolder(async (root) => {
      await makeInputs(root);
      const path = `${root}/${CONFIGURATION}`;
      const parent = `${root}/runs/test/checkpoints/update_000004`;
      await Deno.mkdir(parent, { recursive: true });
      const refusal = async (lines: string) => {
        const text = `
run.algorithm = "sft"
model.path = "in/model.gguf"
sft.data = "in/rows.jsonl"
${lines}`;
        const read: Place = { key: "--fork", path: parent, kind: "input_folder" };
        const error = await refuseCollisions(parseRunConfig(text, { path }), [read]).then(
          () => null,
          (error: ServiceError) => error,
        );
        return error?.message.replaceAll(root, "").split("\n").slice(1) ?? [];
      };
      const message = (line: number, key: string, folder: string) =>
        `/${CONFIGURATION}:${line}: Cannot use /runs/test/checkpoints/update_000004: --fork lies in ${key} ` +
        `(${folder}), where the run writes and removes; name another ${key}`;
      const run = message(2, "run.directory", "/runs/test");
      assert.deepEqual(await refusal("[checkpoint]\n[observe]"), [`${run} or run.name`]);
      assert.deepEqual(await refusal('run.directory = "runs/test"\n[checkpoint]'), [
        run.replace(":2:", ":5:"),
      ]);
      // A user who set both keys has two keys to change.
      assert.deepEqual(await refusal('checkpoint.directory = "runs/test/checkpoints"'), [
        `${run} or run.name`,
        message(5, "checkpoint.directory", "/runs/test/checkpoints"),
      ]);
      assert.deepEqual(await refusal('run.name = "another"\n[checkpoint]'), []);
    }),
);
