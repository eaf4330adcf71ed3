import assert from "node:assert/strict";
import { ManualClock } from "../../core/clock_fake.ts";
import { adapterFileBytes, testConfig } from "../config_testing.ts";
import { type OpenDirectoryOptions, RunDirectory } from "./run_directory.ts";

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

const open = (root: string, more: Partial<OpenDirectoryOptions> = {}) =>
  RunDirectory.open({
    config: testConfig(root),
    identity: {},
    clock,
    mode: "new",
    checkpoint: null,
    force: false,
    ...more,
  });

Deno.test("a new directory contains the record and the resolved configuration", strict, async () => {
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

Deno.test(
  "files made for a run that never started are removed, and existing files stay",
  strict,
  async () => {
    await withDirectory(async (root) => {
      const names = async (path: string) =>
        (await Array.fromAsync(Deno.readDir(path))).map(({ name }) => name).sort();
      const { directory } = testConfig(root).run;
      const discarded = await open(root);
      assert.ok((await names(directory)).includes("lock"));
      await discarded.discard();
      discarded.close();
      assert.deepEqual(await names(root), []);
      // A user's folder in which a run is refused at once keeps its contents and gets nothing new.
      await Deno.mkdir(`${directory}/checkpoints/mine`, { recursive: true });
      const refused = (message: RegExp) => assert.rejects(open(root), { code: "already_exists", message });
      // There is nothing to resume.
      await refused(/exists; name another path in run\.directory, or replace it with --force/);
      assert.deepEqual(await names(directory), ["checkpoints"]);
      await Deno.remove(`${directory}/checkpoints`, { recursive: true });
      (await open(root)).close();
      await refused(/exists; go on with --resume, name another path in run\.directory/);
      assert.deepEqual(await names(directory), ["config.toml", "lock", "run.json"]);
      const resumed = await open(root, { mode: "resume" });
      await assert.rejects(open(root), { code: "conflict" });
      resumed.close();
    });
  },
);

Deno.test("a lock file that was removed while it was opened does not count", strict, async () => {
  await withDirectory(async (root) => {
    const { tryLock } = Deno.FsFile.prototype;
    let removed = 0;
    // Between opening and locking, the previous holder removes the file.
    Deno.FsFile.prototype.tryLock = async function (exclusive) {
      if (removed++ === 0) await Deno.remove(`${testConfig(root).run.directory}/lock`);
      return await tryLock.call(this, exclusive);
    };
    try {
      const first = await open(root);
      await assert.rejects(open(root, { mode: "resume" }), { code: "conflict" });
      first.close();
    } finally {
      Deno.FsFile.prototype.tryLock = tryLock;
    }
  });
});

Deno.test("two runs do not share a folder of checkpoints or trajectories at a time", strict, async () => {
  await withDirectory(async (root) => {
    const both = '[checkpoint]\ndirectory = "ckpt"\n[observe]\ndirectory = "seen"';
    const first = await open(root, { config: testConfig(root, both) });
    for (const [section, folder] of [["checkpoint", "ckpt"], ["observe", "seen"]] as const) {
      const other = testConfig(root, `[${section}]\ndirectory = "${folder}"`);
      other.run.directory = `${root}/runs/other`;
      await assert.rejects(open(root, { config: other, force: true }), {
        code: "conflict",
        message: `Cannot use ${root}/${folder}: another process is working in it; wait for it, ` +
          `or name another [${section}].directory`,
      });
      assert.deepEqual(await Array.fromAsync(Deno.readDir(`${root}/runs`), ({ name }) => name), ["test"]);
    }
    first.close();
    const other = testConfig(root, both);
    other.run.directory = `${root}/runs/other`;
    (await open(root, { config: other })).close();
  });
});

Deno.test("a run directory that cannot be made is refused with the reason", strict, async () => {
  await withDirectory(async (root) => {
    const config = testConfig(root);
    const refused = (message: RegExp) =>
      assert.rejects(open(root, { config }), { name: "ServiceError", code: "config_invalid", message });
    await Deno.writeTextFile(`${root}/file`, "");
    config.run.directory = `${root}/file/runs`;
    await refused(
      /^Cannot use the folder .* of \[run\]\.directory: a part of the path is a file, not a folder$/,
    );
    await Deno.symlink("loop", `${root}/loop`);
    config.run.directory = `${root}/loop/runs`;
    await refused(/: its symbolic links lead in a circle$/);
    config.run.directory = `${root}/new/${"a".repeat(300)}`;
    await refused(/: the name is too long$/);
    await assert.rejects(Deno.stat(`${root}/new`), Deno.errors.NotFound);
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
  "an existing adapter refuses a new run, not a fork; --force leaves other files alone",
  strict,
  async () => {
    await withDirectory(async (root) => {
      const config = testConfig(root);
      await Deno.mkdir(config.run.directory, { recursive: true });
      const adapter = adapterFileBytes();
      await Deno.writeFile(config.output.path, adapter);
      await Deno.writeTextFile(`${config.run.directory}/notes.txt`, "mine");
      await assert.rejects(open(root), { code: "already_exists" });
      const fork = await open(root, { mode: "fork" });
      assert.deepEqual(await Deno.readFile(config.output.path), adapter);
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
    await assert.rejects(
      open(root, { mode: "resume" }),
      /it was cancelled; it has no checkpoint to fork: start a new run/,
    );
    await Deno.mkdir(`${directory.path}/checkpoints/update_000001`, { recursive: true });
    await assert.rejects(
      open(root, { mode: "resume" }),
      /it was cancelled; start a fork of a checkpoint with --fork/,
    );
    await Deno.writeTextFile(`${directory.path}/run.json`, "{");
    await assert.rejects(open(root, { mode: "resume" }), { code: "format_invalid" });
  });
});

Deno.test("resuming without a run starts one", strict, async () => {
  await withDirectory(async (root) => {
    const directory = await open(root, { mode: "resume" });
    assert.equal(directory.record.state, "starting");
    directory.close();
  });
});

Deno.test("only a regular file is ever replaced by the adapter", strict, async () => {
  await withDirectory(async (root) => {
    const config = testConfig(root);
    const home = config.output.path = `${root}/home`;
    await Deno.mkdir(home);
    await Deno.writeTextFile(`${home}/letter.txt`, "mine");
    const refused = { code: "config_invalid", message: /home: it is a directory.*\[output\]\.path/ };
    for (const mode of ["new", "fork", "resume"] as const) {
      for (const force of [false, true]) await assert.rejects(open(root, { config, mode, force }), refused);
    }
    await assert.rejects(Deno.stat(config.run.directory), Deno.errors.NotFound);
    config.output.path = `${root}/link`;
    await Deno.symlink(home, config.output.path);
    await assert.rejects(open(root, { config, force: true }), /no regular file/);
    assert.equal(await Deno.readTextFile(`${home}/letter.txt`), "mine");
    await Deno.remove(config.output.path);
    // A file that appears between the check and the removal stays, too.
    const forced = await open(root, { config, force: true });
    await Deno.mkdir(config.output.path);
    await Deno.writeTextFile(`${config.output.path}/late.txt`, "mine");
    await assert.rejects(forced.commit());
    assert.equal(await Deno.readTextFile(`${config.output.path}/late.txt`), "mine");
    forced.close();
  });
});

Deno.test("a file in the place of a folder is refused", strict, async () => {
  await withDirectory(async (root) => {
    const config = testConfig(root, "[checkpoint]");
    config.checkpoint!.directory = `${root}/file`;
    await Deno.writeTextFile(`${root}/file`, "mine");
    await assert.rejects(open(root, { config, force: true }), /\[checkpoint\]\.directory/);
  });
});

Deno.test("--force leaves other files in folders with a run's names", strict, async () => {
  await withDirectory(async (root) => {
    const { directory } = testConfig(root).run;
    await Deno.mkdir(`${directory}/checkpoints/update_000001`, { recursive: true });
    await Deno.mkdir(`${directory}/checkpoints/.svc-replaced-update_000002`);
    await Deno.writeTextFile(`${directory}/checkpoints/update_000001_notes.txt`, "mine");
    const forced = await open(root, { force: true });
    await forced.commit();
    forced.close();
    const left = await Array.fromAsync(Deno.readDir(`${directory}/checkpoints`));
    assert.deepEqual(left.map(({ name }) => name), ["update_000001_notes.txt"]);
  });
});

Deno.test("a run that was being removed when its process died is not restored", strict, async () => {
  await withDirectory(async (root) => {
    const first = await open(root);
    first.close();
    await Deno.mkdir(`${first.path}/.svc-removed`);
    await Deno.writeTextFile(`${first.path}/.svc-removed/events.jsonl`, "old");
    const again = await open(root, { mode: "resume" });
    again.close();
    assert.equal(again.record.id, first.record.id);
    assert.deepEqual((await Array.fromAsync(Deno.readDir(first.path))).map(({ name }) => name).toSorted(), [
      "config.toml",
      "lock",
      "run.json",
    ]);
  });
});

Deno.test("folders of a user stay, whatever they are called", strict, async () => {
  await withDirectory(async (root) => {
    const folders = [".replaced", ".removed"].map((name) => `${testConfig(root).run.directory}/${name}`);
    for (const folder of folders) await Deno.mkdir(`${folder}/run.json`, { recursive: true });
    (await open(root)).close();
    for (const folder of folders) assert.ok((await Deno.stat(`${folder}/run.json`)).isDirectory);
  });
});

Deno.test("--force follows a linked folder of checkpoints, and the link stays", strict, async () => {
  await withDirectory(async (given) => {
    const root = await Deno.realPath(given), { directory } = testConfig(root).run;
    await Deno.mkdir(`${root}/big/update_000001`, { recursive: true });
    await Deno.writeTextFile(`${root}/big/update_000001/state.json`, "{}");
    await Deno.writeTextFile(`${root}/big/notes.txt`, "mine");
    await Deno.mkdir(directory, { recursive: true });
    await Deno.symlink(`${root}/big`, `${directory}/checkpoints`);
    await assert.rejects(open(root), { code: "already_exists" });
    const refused = await open(root, { force: true });
    await refused.discard();
    refused.close();
    assert.ok((await Deno.stat(`${directory}/checkpoints/update_000001`)).isDirectory);
    const forced = await open(root, { force: true });
    await forced.commit();
    forced.close();
    assert.equal(await Deno.readLink(`${directory}/checkpoints`), `${root}/big`);
    assert.deepEqual((await Array.fromAsync(Deno.readDir(`${root}/big`))).map(({ name }) => name), [
      "notes.txt",
    ]);
  });
});

Deno.test("changes of the record are written one after the other", strict, async () => {
  await withDirectory(async (root) => {
    const directory = await open(root);
    await Promise.all([directory.update({ state: "running" }), directory.update({ name: "b" })]);
    const { state, name } = directory.record;
    assert.deepEqual([state, name], ["running", "b"]);
    assert.deepEqual(JSON.parse(await Deno.readTextFile(`${directory.path}/run.json`)), directory.record);
    directory.close();
  });
});

Deno.test("a damaged record is replaced with --force", strict, async () => {
  await withDirectory(async (root) => {
    (await open(root)).close();
    await Deno.writeTextFile(`${testConfig(root).run.directory}/run.json`, "{");
    await assert.rejects(open(root), { code: "format_invalid", message: /--force/ });
    const forced = await open(root, { force: true });
    await forced.commit();
    forced.close();
    assert.equal(forced.record.state, "starting");
  });
});

Deno.test("a fork does not replace its parent's directory", strict, async () => {
  await withDirectory(async (root) => {
    const checkpoint = `${testConfig(root).run.directory}/checkpoints/update_000001`;
    await Deno.mkdir(checkpoint, { recursive: true });
    await assert.rejects(open(root, { mode: "fork", checkpoint: `${checkpoint}/`, force: true }), {
      code: "conflict",
      message: /--force would replace/,
    });
    assert.ok((await Deno.stat(checkpoint)).isDirectory);
  });
});

const has_git = await new Deno.Command("git", { args: ["--version"] }).output().then(() => true, () => false);

Deno.test({
  name: `git ignores a run's folder wherever it lies${has_git ? "" : " (skipped: needs git)"}`,
  ignore: !has_git,
  ...strict,
  fn: () =>
    withDirectory(async (root) => {
      const git = async (...args: string[]) => {
        const { code, stdout } = await new Deno.Command("git", { args, cwd: root, stderr: "null" }).output();
        assert.equal(code, 0);
        return new TextDecoder().decode(stdout);
      };
      await git("init");
      const directory = await open(root);
      await Deno.mkdir(`${directory.path}/workspaces`);
      await directory.commit();
      await Deno.writeTextFile(`${directory.path}/adapter.gguf`, "");
      assert.equal(await git("status", "--porcelain", "--untracked-files=all"), "");
      directory.close();
      const resumed = await open(root, { mode: "resume" });
      await resumed.commit();
      resumed.close();
      assert.equal(await Deno.readTextFile(`${directory.path}/.gitignore`), "*\n");
    }),
});

Deno.test("a folder with other contents is never hidden from git", strict, async () => {
  await withDirectory(async (root) => {
    await Deno.writeTextFile(`${root}/notes.md`, "mine");
    const config = testConfig(root);
    config.run.directory = root;
    const directory = await open(root, { config });
    await directory.commit();
    directory.close();
    await assert.rejects(Deno.stat(`${root}/.gitignore`), Deno.errors.NotFound);
  });
});
