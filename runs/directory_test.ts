import assert from "node:assert/strict";
import { ManualClock } from "../core/clock.ts";
import { RunDirectory } from "./directory.ts";
import { testConfig } from "./testing.ts";

const strict = { sanitizeOps: true, sanitizeResources: true };
const clock = new ManualClock();

async function withDirectory(body: (path: string) => Promise<void>) {
  const directory = await Deno.makeTempDir();
  try {
    await body(directory);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

const open = (root: string, more: { mode?: "new" | "resume" | "fork"; force?: boolean } = {}) =>
  RunDirectory.open({
    config: testConfig(root),
    identity: {},
    clock,
    mode: more.mode ?? "new",
    force: more.force ?? false,
  });

Deno.test("a new directory holds the record and the resolved configuration", strict, async () => {
  await withDirectory(async (root) => {
    const directory = await open(root);
    assert.match(directory.record.id, /^run_[0-9A-HJKMNP-TV-Z]{26}$/);
    assert.equal(directory.record.state, "starting");
    const stored = JSON.parse(await Deno.readTextFile(`${directory.path}/run.json`));
    assert.deepEqual(stored, directory.record);
    assert.match(await Deno.readTextFile(`${directory.path}/config.toml`), /group_size = 4/);
    directory.close();
  });
});

Deno.test("two processes never have one directory", strict, async () => {
  await withDirectory(async (root) => {
    const directory = await open(root);
    const script = `const f = await Deno.open(${
      JSON.stringify(`${directory.path}/lock`)
    }, {read: true, write: true});
      console.log(await f.tryLock(true));`;
    const other = new Deno.Command(Deno.execPath(), { args: ["eval", script], stdout: "piped" });
    assert.equal(new TextDecoder().decode((await other.output()).stdout).trim(), "false");
    await assert.rejects(open(root, { mode: "resume" }), { code: "conflict" });
    directory.close();
    (await open(root, { mode: "resume" })).close();
  });
});

Deno.test("existing output is refused without --resume or --force, and stays", strict, async () => {
  await withDirectory(async (root) => {
    const first = await open(root);
    const { id } = first.record;
    first.close();
    for (const mode of ["new", "fork"] as const) {
      await assert.rejects(
        open(root, { mode }),
        (error: Error) => /run\.json exists.*--force/.test(error.message),
      );
    }
    const again = await open(root, { mode: "resume" });
    assert.equal(again.record.id, id);
    assert.equal(again.record.state, "interrupted");
    again.close();
    const refused = await open(root, { force: true });
    assert.notEqual(refused.record.id, id);
    await refused.discard();
    refused.close();
    const restored = await open(root, { mode: "resume" });
    assert.equal(restored.record.id, id);
    restored.close();
    (await open(root, { force: true })).close();
    const crashed = await open(root, { mode: "resume" });
    assert.equal(crashed.record.id, id);
    crashed.close();
    const forced = await open(root, { force: true });
    await forced.commit();
    forced.close();
    const after = await open(root, { mode: "resume" });
    assert.equal(after.record.id, forced.record.id);
    after.close();
  });
});

Deno.test(
  "an adapter in the way refuses a new run, not a fork; --force leaves strangers alone",
  strict,
  async () => {
    await withDirectory(async (root) => {
      const config = testConfig(root);
      await Deno.mkdir(config.run.directory, { recursive: true });
      await Deno.writeTextFile(config.output.path, "adapter");
      await Deno.writeTextFile(`${config.run.directory}/notes.txt`, "mine");
      await assert.rejects(open(root), { code: "already_exists" });
      const fork = await open(root, { mode: "fork" });
      assert.equal(await Deno.readTextFile(config.output.path), "adapter");
      fork.close();
      const forced = await open(root, { force: true });
      await forced.commit();
      forced.close();
      assert.equal(await Deno.readTextFile(`${config.run.directory}/notes.txt`), "mine");
      await assert.rejects(Deno.stat(config.output.path), Deno.errors.NotFound);
    });
  },
);

Deno.test("a cancelled run is not resumed, a damaged record is named", strict, async () => {
  await withDirectory(async (root) => {
    const directory = await open(root);
    await directory.update({ state: "cancelled" });
    directory.close();
    await assert.rejects(open(root, { mode: "resume" }), /it was cancelled/);
    await Deno.writeTextFile(`${directory.path}/run.json`, "{");
    await assert.rejects(open(root, { mode: "resume" }), { code: "format_invalid" });
  });
});

Deno.test("resuming where nothing began begins", strict, async () => {
  await withDirectory(async (root) => {
    const directory = await open(root, { mode: "resume" });
    assert.equal(directory.record.state, "starting");
    directory.close();
  });
});
