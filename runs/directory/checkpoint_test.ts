import assert from "node:assert/strict";
import { ServiceError } from "../../core/errors.ts";
import {
  CHECKPOINT_FORMAT_VERSION,
  type CheckpointRecord,
  initialState,
  listCheckpoints,
  loadCheckpoint,
  newestCheckpoint,
  pruneCheckpoints,
  saveCheckpoint,
} from "./checkpoint.ts";
import { type FileOperations, systemFiles } from "./checkpoint_files.ts";

const strict = { sanitizeOps: true, sanitizeResources: true };

async function withRoot(body: (root: string) => Promise<void>) {
  const directory = await Deno.makeTempDir();
  try {
    await body(`${directory}/checkpoints`);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

function record(update: number): Omit<CheckpointRecord, "format_version" | "files"> {
  return {
    run: "run_1",
    created_at: "2026-01-01T00:00:00.000Z",
    config_hash: "c",
    config: { "run.seed": 1 },
    metrics: { "reward/mean": 0.1 + 0.2 },
    state: {
      ...initialState(),
      update,
      curve: [0.5, 1e-9],
      history: { s: [{ update, attempts: 8, passes: 3, failed: 0 }] },
    },
  };
}

/** Writes files as an engine would; `content` distinguishes the checkpoints. */
const writer = (content: string) => async (directory: string) => {
  await Deno.writeTextFile(`${directory}/adapter.gguf`, `adapter ${content}`);
  await Deno.writeTextFile(`${directory}/optimizer.safetensors`, `moments ${content}`);
};

const save = (root: string, update: number, more: { content?: string; files?: FileOperations } = {}) =>
  saveCheckpoint({
    root,
    record: record(update),
    write: writer(more.content ?? String(update)),
    ...(more.files && { files: more.files }),
  });

/** The n-th operation and all later ones fail, as when the process dies there. */
function failingFiles(n: number): FileOperations {
  let count = 0;
  const guard = <A extends unknown[]>(operation: (...args: A) => Promise<void>) => (...args: A) =>
    ++count >= n ? Promise.reject(new Error(`operation ${count} failed`)) : operation(...args);
  return {
    makeDirectory: guard(systemFiles.makeDirectory),
    writeFile: guard(systemFiles.writeFile),
    syncFile: guard(systemFiles.syncFile),
    syncDirectory: guard(systemFiles.syncDirectory),
    rename: guard(systemFiles.rename),
    remove: guard(systemFiles.remove),
  };
}

Deno.test("a saved checkpoint is loaded", strict, async () => {
  await withRoot(async (root) => {
    const saved = await save(root, 4);
    assert.equal(saved.name, "update_000004");
    const loaded = await loadCheckpoint(`${root}/update_000004`);
    assert.deepEqual(loaded, saved);
    const { files, format_version, ...rest } = loaded.record;
    assert.deepEqual(rest, record(4));
    assert.equal(format_version, 4);
    assert.deepEqual(Object.keys(files), ["adapter.gguf", "optimizer.safetensors"]);
    assert.equal(files["adapter.gguf"]!.size_bytes, "adapter 4".length);
  });
});

Deno.test(
  "whichever file operation fails, no partial checkpoint has its final name",
  strict,
  async () => {
    for (let n = 1;; n++) {
      let failed = false;
      await withRoot(async (root) => {
        await save(root, 3);
        await save(root, 4, { content: "old" });
        try {
          await save(root, 4, { content: "new", files: failingFiles(n) });
        } catch (error) {
          failed = true;
          assert.match((error as Error).message, /operation \d+ failed/);
        }
        assert.deepEqual(await listCheckpoints(root), ["update_000003", "update_000004"]);
        const found = await loadCheckpoint(`${root}/update_000004`);
        const adapter = await Deno.readTextFile(`${found.directory}/adapter.gguf`);
        assert.ok(failed ? ["adapter old", "adapter new"].includes(adapter) : adapter === "adapter new");
        for await (const { name } of Deno.readDir(root)) {
          assert.ok(!name.startsWith("."), `${name} is left over`);
        }
      });
      if (!failed) return assert.ok(n > 8, "every operation was made to fail");
    }
  },
);

Deno.test("an unfinished checkpoint has a reserved name", strict, async () => {
  await withRoot(async (root) => {
    const seen: string[] = [];
    const rename = (from: string, to: string) => {
      seen.push(from, to);
      return systemFiles.rename(from, to);
    };
    for (const content of ["old", "new"]) {
      await save(root, 4, { content, files: { ...systemFiles, rename } });
    }
    const [final, partial, replaced] = ["", ".svc-partial-", ".svc-replaced-"].map((prefix) =>
      `${root}/${prefix}update_000004`
    );
    assert.deepEqual(seen, [partial, final, final, replaced, partial, final]);
  });
});

Deno.test("an engine that fails during writing leaves no checkpoint", strict, async () => {
  await withRoot(async (root) => {
    const write = async (directory: string) => {
      await Deno.writeTextFile(`${directory}/adapter.gguf`, "half");
      throw new ServiceError("device_lost", "Cannot save: the device is lost");
    };
    await assert.rejects(saveCheckpoint({ root, record: record(1), write }), /device is lost/);
    assert.deepEqual(await listCheckpoints(root), []);
    assert.equal((await Array.fromAsync(Deno.readDir(root))).length, 0);
  });
});

Deno.test("a crash between the two renames brings the old one back", strict, async () => {
  await withRoot(async (root) => {
    // The second names have no `svc-`.
    for (
      const [replaced, partial] of [
        [".svc-replaced-update_000004", ".svc-partial-update_000004"],
        [".update_000004.replaced", ".update_000004.partial"],
      ]
    ) {
      await save(root, 4);
      await Deno.rename(`${root}/update_000004`, `${root}/${replaced}`);
      await Deno.mkdir(`${root}/${partial}`);
      await Deno.mkdir(`${root}/.update_000004`);
      const found = await newestCheckpoint(root, assert.fail);
      assert.equal(found!.name, "update_000004");
      const left = (await Array.fromAsync(Deno.readDir(root))).map(({ name }) => name).sort();
      assert.deepEqual(left, [".update_000004", "update_000004"], "a user's folder stays");
      await Deno.remove(root, { recursive: true });
    }
  });
});

Deno.test(
  "every flipped byte and every truncation is detected, and the one before is used",
  strict,
  async () => {
    await withRoot(async (root) => {
      await save(root, 2);
      const newest = await save(root, 10);
      for await (const { name } of Deno.readDir(newest.directory)) {
        const path = `${newest.directory}/${name}`;
        const bytes = await Deno.readFile(path);
        const step = Math.max(1, Math.floor(bytes.length / 60));
        for (let at = 0; at < bytes.length; at += step) {
          const flipped = bytes.slice();
          flipped[at]! ^= 1 << (at % 8);
          for (const damaged of [flipped, bytes.subarray(0, at)]) {
            await Deno.writeFile(path, damaged);
            const warnings: string[] = [];
            const found = await newestCheckpoint(root, (message) => warnings.push(message));
            assert.equal(found?.name, "update_000002", `byte ${at} of ${name}`);
            assert.equal(warnings.length, 1);
            assert.ok(warnings[0]!.includes("update_000010") && warnings[0]!.includes(name), warnings[0]);
          }
        }
        await Deno.remove(path);
        assert.equal((await newestCheckpoint(root, () => {}))?.name, "update_000002");
        await Deno.writeFile(path, bytes);
      }
      assert.equal((await newestCheckpoint(root, assert.fail))?.name, "update_000010");
    });
  },
);

Deno.test("a missing folder has no checkpoints", strict, async () => {
  await withRoot(async (root) => {
    assert.equal(await newestCheckpoint(root, assert.fail), null);
    await assert.rejects(loadCheckpoint(`${root}/update_000001`), { code: "path_not_found" });
  });
});

Deno.test("a later format is refused by its number", strict, async () => {
  await withRoot(async (root) => {
    const { directory } = await save(root, 1);
    const { createHash } = await import("node:crypto");
    const { seal: _, ...state } = JSON.parse(await Deno.readTextFile(`${directory}/state.json`));
    state.format_version = CHECKPOINT_FORMAT_VERSION + 1;
    const seal = createHash("sha256").update(JSON.stringify(state, null, 1)).digest("hex");
    await Deno.writeTextFile(`${directory}/state.json`, JSON.stringify({ ...state, seal }, null, 1) + "\n");
    await assert.rejects(loadCheckpoint(directory), /format version is 5, this build reads 4/);
  });
});

Deno.test("pruning keeps the newest and the best, counting by update and not by text", strict, async () => {
  await withRoot(async (root) => {
    for (const update of [2, 4, 999_998, 1_000_000]) await save(root, update);
    assert.deepEqual(
      await pruneCheckpoints(root, { keep: 2, best: "update_000002", newest: "update_1000000" }),
      ["update_000004"],
    );
    assert.deepEqual(await listCheckpoints(root), ["update_000002", "update_999998", "update_1000000"]);
    assert.equal((await newestCheckpoint(root, assert.fail))!.record.state.update, 1_000_000);
  });
});

Deno.test("a checkpoint's name is its folder's, however the path is written", strict, async () => {
  await withRoot(async (root) => {
    await save(root, 4);
    for (const path of [`${root}/update_000004`, `${root}/update_000004/`, `${root}/./update_000004//`]) {
      const { name, directory } = await loadCheckpoint(path);
      assert.deepEqual([name, directory], ["update_000004", `${root}/update_000004`]);
    }
  });
});
