import assert from "node:assert/strict";
import { dirname } from "node:path";
import { ManualClock } from "../../core/clock_fake.ts";
import { ServiceError } from "../../core/errors.ts";
import { fixturePath } from "../../tests/fixture.ts";
import { withFolder } from "../../tests/folder.ts";
import { ScriptedEngine } from "../../trainer/engine/scripted_engine_fake.ts";
import { readAdapter, writeAdapter } from "../../trainer/formats/adapter.ts";
import { writePeft } from "../../trainer/formats/peft.ts";
import { METRICS_CSV_HEADER } from "../record/metrics_csv.ts";
import { adapterFileBytes, testConfig } from "../config_testing.ts";
import { eventsOf, startTestRun } from "../run_fake.ts";
import { RunDirectory } from "./run_directory.ts";
import { beginsWith, refuseForeignFiles } from "./foreign_files.ts";

const strict = { sanitizeOps: true, sanitizeResources: true };
const GOLDEN = "models/tiny-agent/golden-lora/";

const MORE = '[checkpoint]\ndirectory = "ckpt"\n[observe]\ndirectory = "seen"\n[output]\npath = "a.gguf"\n' +
  'peft_dir = "peft"\n[metrics]\ncsv = "m.csv"';

async function write(path: string, content: string | Uint8Array): Promise<void> {
  await Deno.mkdir(dirname(path), { recursive: true });
  await Deno.writeFile(path, typeof content === "string" ? new TextEncoder().encode(content) : content);
}

/** The key at which a configuration in `root` is refused; null when it is accepted. */
async function refusedAt(root: string): Promise<string | null> {
  return await refuseForeignFiles(testConfig(root, MORE), "new").then(() => null, (error: ServiceError) => {
    assert.equal(error.code, "already_exists");
    assert.match(error.message, /^Cannot write .*what no run wrote is not replaced, not even with --force/);
    return error.details.key as string;
  });
}

Deno.test(
  "a run's files are recognised, and incomplete, empty or missing files do not refuse a run",
  strict,
  () =>
    withFolder(async (root) => {
      assert.equal(await refusedAt(root), null);
      const lora = await readAdapter(await fixturePath(`${GOLDEN}golden-lora.gguf`));
      await writeAdapter(`${root}/a.gguf`, lora);
      await writePeft(`${root}/peft`, lora, { base_model: "tiny-agent" });
      const run = `${root}/runs/test`;
      const written: Record<string, string> = {
        "m.csv": `${METRICS_CSV_HEADER}1,2026-01-01T00:00:00Z,1,1,reward/mean,0.5\n`,
        "runs/test/run.json": '{"format_version": 1, "id": "run_1"}',
        "runs/test/log.txt": "state starting",
        "runs/test/config.toml": "[run]",
        "runs/test/notes.txt": "mine",
        "ckpt/update_000001/state.json": "{",
        "ckpt/update_000001_notes.txt": "mine",
        "ckpt/.svc-partial-update_000002/adapter.gguf": "torn",
        "seen/index.jsonl": '{"for',
        "seen/update_000001.jsonl": '{"group":{"update":1}}\n',
        "seen/update_000002.jsonl": "",
        "seen/readme.md": "mine",
      };
      for (const [name, text] of Object.entries(written)) await write(`${root}/${name}`, text);
      assert.equal(await refusedAt(root), null);
      await Deno.writeTextFile(`${run}/run.json`, '{"form');
      assert.equal(await refusedAt(root), null, "a damaged record was one");
    }),
);

Deno.test("every existing file that no run wrote is refused at its key", strict, async () => {
  const model = await Deno.readFile(await fixturePath("models/tiny-agent-q8_0.gguf"));
  const foreign_files: [string, string | Uint8Array, string][] = [
    ["a.gguf", "text", "output.path"],
    ["a.gguf", model, "output.path"],
    ["a_best.gguf", model, "output.path"],
    ["a.gguf", await Deno.readFile(await fixturePath(`${GOLDEN}golden-lora.gguf`)), "output.path"],
    ["a.gguf", adapterFileBytes("of somebody else"), "output.path"],
    ["peft/letter.txt", "mine", "output.peft_dir"],
    ["peft/adapter_config.json", '{"peft_type":"LORA","auto_mapping":null}', "output.peft_dir"],
    ["m.csv", "name,grade\nAnn,1\n", "metrics.csv"],
    ["runs/test/run.json", '{"name": "mine"}', "run.directory"],
    ["runs/test/config.toml", "mine = 1", "run.directory"],
    ["runs/test/events.jsonl", "{}\n", "run.directory"],
    ["runs/test/log.txt", "mine", "run.directory"],
    ["ckpt/update_000001", "mine", "checkpoint.directory"],
    ["ckpt/update_000001/photo.jpg", "mine", "checkpoint.directory"],
    ["runs/test/checkpoints/update_000001/photo.jpg", "mine", "checkpoint.directory"],
    ["seen/index.jsonl", '{"id": 1}\n', "observe.directory"],
    ["seen/update_000001.jsonl", "mine", "observe.directory"],
    ["runs/test/trajectories/index.jsonl", "mine", "observe.directory"],
  ];
  for (const [name, content, key] of foreign_files) {
    await withFolder(async (root) => {
      await write(`${root}/${name}`, content);
      assert.equal(await refusedAt(root), key, name);
      const options = {
        config: testConfig(root, MORE),
        identity: {},
        clock: new ManualClock(),
        checkpoint: null,
      };
      for (
        const [mode, force] of [["new", true], ["fork", true], ["fork", false], ["resume", false]] as const
      ) {
        await assert.rejects(RunDirectory.open({ ...options, mode, force }), { code: "already_exists" });
      }
      const bytes = typeof content === "string" ? new TextEncoder().encode(content) : content;
      assert.deepEqual(await Deno.readFile(`${root}/${name}`), bytes);
    });
  }
});

Deno.test(
  "a run that was moved aside when its process died is restored, although its record is elsewhere",
  strict,
  () =>
    withFolder(async (root) => {
      await write(`${root}/runs/test/.svc-replaced/run.json`, '{"format_version": 1, "id": "run_1"}');
      await write(`${root}/runs/test/events.jsonl`, "{}\n");
      assert.equal(await refusedAt(root), null);
    }),
);

Deno.test(
  "a file that appears in an output's place during training stays, and the run says so",
  strict,
  async () => {
    for (const key of ["output.path", "metrics.csv"] as const) {
      await withFolder(async (root) => {
        const path = `${root}/mine`;
        const run = await startTestRun({
          root,
          newEngine: (refuse) => new ScriptedEngine({ refuse }).client,
          change: (config) => key === "output.path" ? config.output.path = path : config.metrics.csv = path,
          refuse: (method) => {
            if (method === "train_step") Deno.writeTextFileSync(path, "a letter");
          },
        });
        if (key === "output.path") {
          const end = (await eventsOf(run)).at(-1)!;
          assert.equal(await run.ended, "failed");
          assert.ok(
            end.kind === "end" && end.detail!.includes("move it away, or name another path in output.path"),
          );
        } else {
          await assert.rejects(eventsOf(run), /name another path in metrics\.csv/);
          await assert.rejects(run.ended, { code: "internal", message: /it exists and is/ });
        }
        assert.equal(await Deno.readTextFile(path), "a letter");
      });
    }
  },
);

Deno.test(
  "an output that becomes a link to an input during training is not followed",
  strict,
  () =>
    withFolder(async (root) => {
      const model = `${root}/start.gguf`, path = `${root}/out.gguf`;
      await Deno.writeTextFile(model, "weights");
      const run = await startTestRun({
        root,
        newEngine: (refuse) => new ScriptedEngine({ refuse }).client,
        change: (config) => config.output.path = path,
        refuse: (method) => {
          if (method === "train_step") {
            try {
              Deno.symlinkSync(model, path);
            } catch { /* it stands there from an earlier step */ }
          }
        },
      });
      await eventsOf(run);
      assert.equal(await run.ended, "failed");
      assert.equal(await Deno.readTextFile(model), "weights");
      assert.equal(await Deno.readLink(path), model);
    }),
);

Deno.test(
  "a file starts as expected, or is cut off within that start",
  strict,
  () =>
    withFolder(async (root) => {
      const path = `${root}/x`;
      const begins = async (text: string) => {
        await Deno.writeTextFile(path, text);
        return await beginsWith(path, "abc");
      };
      assert.ok(await beginsWith(path, "abc"));
      for (const text of ["", "a", "abc", "abcd"]) assert.ok(await begins(text), text);
      for (const text of ["b", "ab ", "xabc"]) assert.ok(!await begins(text), text);
    }),
);
