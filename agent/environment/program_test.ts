import assert from "node:assert/strict";
import { withFolder } from "../../tests/folder.ts";
import { killGroup, killProgram, startProgram } from "./program.ts";

const textOf = (stream: ReadableStream<Uint8Array>) => new Response(stream).text();

Deno.test("a program leads a group of its own, with which its children are killed", async () => {
  await withFolder(async (home) => {
    const argv = ["sh", "-c", "sleep 1000 & echo started; wait"];
    const child = await startProgram({ argv, name: "sh", cwd: home, home, stdin: "null" });
    const reader = child.stdout.getReader();
    await reader.read();
    killGroup(child.pid);
    assert.equal((await child.status).signal, "SIGKILL");
    // The pipe closes when the last process that has it is gone.
    assert.equal((await reader.read()).done, true);
    await child.stderr.cancel();
  });
});

Deno.test("a program is killed in the moment after its start, when it has no group yet", async () => {
  await withFolder(async (home) => {
    for (let i = 0; i < 20; i++) {
      const argv = ["sh", "-c", "sleep 1; echo survived"];
      const child = await startProgram({ argv, name: "sh", cwd: home, home, stdin: "null" });
      killProgram(child);
      const [out, , { signal }] = await Promise.all([
        textOf(child.stdout),
        textOf(child.stderr),
        child.status,
      ]);
      assert.deepEqual({ out, signal }, { out: "", signal: "SIGKILL" });
      killProgram(child);
    }
  });
});
