import assert from "node:assert/strict";
import { fixturePath } from "../tests/fixture.ts";
import { withFolder } from "../tests/folder.ts";
import { readScenarios } from "../data/scenario.ts";
import { runSvc } from "./context_fake.ts";

Deno.test("a published dataset becomes a file of scenarios, which is replaced only with --force", () =>
  withFolder(async (folder) => {
    const path = await fixturePath("datasets/gsm8k-test-200.jsonl"), out = `${folder}/tasks.jsonl`;
    const first = await runSvc("convert", path, "--out", out);
    assert.deepEqual([first.code, first.out], [0, `200 rows (scenarios) of GSM8K: ${out}\n`]);
    assert.equal((await readScenarios(out)).length, 200);
    const second = await runSvc("convert", path, "--out", out);
    assert.equal(second.code, 2);
    assert.match(second.err, /it exists; name another file, or replace it with --force/);
    const forced = await runSvc("convert", path, "--out", out, "--as", "sft", "--force");
    assert.equal(forced.code, 0);
    await assert.rejects(readScenarios(out));
  }));

Deno.test("the file that is read is not replaced", () =>
  withFolder(async (folder) => {
    const path = `${folder}/gsm8k.jsonl`, text = '{"question": "What is 1 + 1?", "answer": "#### 2"}\n';
    await Deno.writeTextFile(path, text);
    await Deno.symlink(path, `${folder}/link.jsonl`);
    for (const out of [path, `${folder}/link.jsonl`]) {
      const { code, err } = await runSvc("convert", path, "--out", out, "--force");
      assert.equal(code, 2);
      assert.match(err, /it is the file that is read/);
    }
    assert.equal(await Deno.readTextFile(path), text);
  }));
