import assert from "node:assert/strict";
import { withFolder } from "../tests/folder.ts";
import { sha256OfFile } from "./files.ts";
import { asChecked, checkedFile, openRegularFile, withCheckedFiles } from "./regular_file.ts";

const STRICT = { sanitizeOps: true, sanitizeResources: true };

async function makePipe(path: string): Promise<void> {
  assert.ok((await new Deno.Command("mkfifo", { args: [path] }).output()).success);
}

Deno.test({
  name: "only a regular file is opened: a pipe would block the reader for ever",
  ...STRICT,
  fn: () =>
    withFolder(async (folder) => {
      const path = `${folder}/file`, refused = { name: "ServiceError", code: "path_not_found" };
      await assert.rejects(openRegularFile(path), {
        ...refused,
        message: `Cannot read ${path}: there is no such file or folder`,
        details: { path },
      });
      await Deno.writeTextFile(path, "a");
      (await openRegularFile(path)).close();
      const message = /^Cannot read .*: it is not a regular file$/;
      await assert.rejects(openRegularFile(folder), { ...refused, message });
      if (Deno.build.os === "windows") return;
      await makePipe(`${path}.pipe`);
      await assert.rejects(openRegularFile(`${path}.pipe`), { ...refused, message });
    }),
});

Deno.test({
  name: "a pipe that takes a file's place before it is opened does not block",
  ignore: Deno.build.os === "windows",
  ...STRICT,
  fn: () =>
    withFolder(async (folder) => {
      const path = `${folder}/file`, { stat } = Deno;
      await Deno.writeTextFile(path, "a");
      try {
        Deno.stat = async (path) => {
          const found = await stat(path);
          await Deno.remove(path);
          await makePipe(String(path));
          return found;
        };
        await assert.rejects(openRegularFile(path), {
          message: `Cannot read ${path}: it is not a regular file`,
        });
      } finally {
        Deno.stat = stat;
      }
    }),
});

Deno.test("a file is read from any byte, in parts or to its end", () =>
  withFolder(async (folder) => {
    const path = `${folder}/file`, text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
    await Deno.writeTextFile(path, "0123456789");
    using file = await openRegularFile(path);
    const { size, ino } = await file.stat();
    assert.deepEqual([size, ino], [10, (await Deno.stat(path)).ino]);
    const four = new Uint8Array(4);
    assert.deepEqual([await file.read(four), text(four)], [4, "0123"]);
    assert.deepEqual([file.readSync(four), text(four)], [4, "4567"]);
    assert.deepEqual([await file.read(four), text(four)], [2, "8967"]);
    assert.deepEqual([await file.read(four), file.readSync(four)], [null, null]);
    assert.deepEqual([await file.read(new Uint8Array()), file.readSync(new Uint8Array())], [0, 0]);
    file.seek(7);
    assert.equal(text(await file.readAll()), "789");
    const long = "0123456789abcdef".repeat(1 << 13);
    await Deno.writeTextFile(path, long);
    file.seek(0);
    assert.equal(text(await file.readAll()), long);
    file.close();
    file.close();
  }));

Deno.test("a checked file is a regular file whose path has no link", () =>
  withFolder(async (folder) => {
    await Deno.mkdir(`${folder}/deep`);
    const path = `${folder}/deep/file`;
    await Deno.writeTextFile(path, "a");
    const { dev, ino } = await Deno.stat(path);
    assert.deepEqual(await checkedFile(path), { path, dev, ino });
    await Deno.symlink("deep", `${folder}/link`);
    await Deno.symlink("file", `${folder}/deep/link`);
    for (const name of ["link/file", "deep/link"]) {
      await assert.rejects(checkedFile(`${folder}/${name}`), {
        code: "path_not_found",
        message: `Cannot read ${folder}/${name}: it is a link to ${path}, or lies in a folder that is one`,
        details: { path: `${folder}/${name}` },
      });
    }
    await assert.rejects(checkedFile(`${folder}/deep`), { message: /it is not a regular file$/ });
    await assert.rejects(checkedFile(`${folder}/none`), { message: /there is no such file or folder$/ });
  }));

Deno.test("a folder that becomes a link while its file is checked is refused", () =>
  withFolder(async (folder) => {
    const path = `${folder}/deep/file`, { realPath } = Deno;
    for (const name of ["deep", "other"]) {
      await Deno.mkdir(`${folder}/${name}`);
      await Deno.writeTextFile(`${folder}/${name}/file`, name);
    }
    try {
      Deno.realPath = async (path) => {
        const real = await realPath(path);
        Deno.realPath = realPath;
        await Deno.rename(`${folder}/deep`, `${folder}/moved`);
        await Deno.symlink("other", `${folder}/deep`);
        return real;
      };
      await assert.rejects(checkedFile(path), { message: /it is a link to .*other\/file/ });
    } finally {
      Deno.realPath = realPath;
    }
  }));

Deno.test("the files of a piece of work are opened only as they were checked, by path too, and no other work's", () =>
  withFolder(async (folder) => {
    const path = `${folder}/file`;
    await Deno.writeTextFile(path, "a");
    const file = await checkedFile(path);
    await Deno.writeTextFile(`${folder}/other`, "b");
    await Deno.rename(`${folder}/other`, path);
    const refused = { message: `Cannot read ${path}: another file has taken its place` };
    assert.deepEqual([asChecked(path, [file]), asChecked(`${path}2`, [file])], [file, `${path}2`]);
    await assert.rejects(openRegularFile(file), refused);
    await assert.rejects(withCheckedFiles([file], () => sha256OfFile(path)), refused);
    const opening = async () => {
      await Promise.resolve();
      (await openRegularFile(path)).close();
    };
    await Promise.all([
      assert.rejects(withCheckedFiles([file], opening), refused),
      withCheckedFiles([await checkedFile(path)], opening),
      opening(),
    ]);
  }));
