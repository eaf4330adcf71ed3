import assert from "node:assert/strict";
import { doing, errorRecord, errorText, ServiceError, systemError } from "./errors.ts";

async function failureOf(run: () => Promise<unknown>): Promise<Error> {
  return await run().then(() => assert.fail("it did not fail"), (error) => error);
}

Deno.test("an error of the operating system is reported with place, reason and fix, without a stack", async () => {
  const folder = await Deno.makeTempDir();
  try {
    await Deno.writeTextFile(`${folder}/file`, "");
    await Deno.symlink("loop", `${folder}/loop`);
    const cases: [() => Promise<unknown>, string, string][] = [
      [() => Deno.readTextFile(`${folder}/none`), "path_not_found", "there is no such file or folder"],
      [() => Deno.mkdir(`${folder}/file/x`), "path_not_found", "a part of the path is a file, not a folder"],
      [() => Deno.readTextFile(`${folder}/loop`), "path_not_found", "its symbolic links lead in a circle"],
      [() => Deno.open(`${folder}/${"a".repeat(300)}`), "path_not_found", "the name is too long"],
      [() => Deno.readTextFile(folder), "path_not_found", "it is a folder"],
      [
        () => Deno.writeTextFile("/dev/full", "x"),
        "internal",
        "no space is left on the disk; free some space and go on",
      ],
    ];
    for (const [run, code, reason] of cases) {
      const error = await failureOf(() => doing("read the place", run));
      assert.ok(error instanceof ServiceError, reason);
      assert.deepEqual([error.code, error.message], [code, `Cannot read the place: ${reason}`]);
    }
    for (
      const [name, code] of [["EACCES", "path_not_found"], ["EROFS", "path_not_found"], [
        "EDQUOT",
        "internal",
      ], ["EIO", "internal"]]
    ) {
      // Root ignores file modes, and a test cannot break a disk.
      const refused = Object.assign(new Error("words of the system"), { code: name });
      const error = systemError("write the place", refused) as ServiceError;
      assert.equal(error.code, code);
      assert.match(error.message, /^Cannot write the place: [a-z -]+(; [a-z ,-]+)?$/);
      assert.doesNotMatch(error.message, /words of the system/);
    }
    const unknown = systemError("write", Object.assign(new Error("odd"), { code: "EODD" })) as ServiceError;
    assert.equal(unknown.message, "Cannot write: odd");
    const bare = await failureOf(() => Deno.readTextFile(`${folder}/none`));
    assert.equal(errorText(bare), `Cannot go on: there is no such file or folder (${bare.message})`);
    assert.deepEqual(errorRecord(bare), { code: "internal", message: errorText(bare), details: {} });
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("a programmer's mistake keeps its stack, and a known error its message", () => {
  const bug = new TypeError("x is undefined");
  assert.equal(systemError("read", bug), bug);
  assert.match(errorText(bug), /^TypeError: x is undefined\n +at /);
  const known = new ServiceError("conflict", "Cannot do this: it is done");
  assert.equal(systemError("read", known), known);
  assert.equal(errorText(known), known.message);
  assert.equal(errorText("a string"), "a string");
});
