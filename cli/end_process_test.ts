import assert from "node:assert/strict";

const POSIX = Deno.build.os !== "windows";

/** Exits with 7; an unload listener represents code that would run at an exit. */
const ENDING = `
import { endProcess } from ${JSON.stringify(new URL("./end_process.ts", import.meta.url).href)};
globalThis.addEventListener("unload", () => console.log("unloaded"));
console.log("last line");
endProcess(7);
`;

async function end(...permissions: string[]): Promise<{ code: number; out: string }> {
  const path = await Deno.makeTempFile({ suffix: ".ts" });
  try {
    await Deno.writeTextFile(path, ENDING);
    const { code, stdout } = await new Deno.Command(Deno.execPath(), {
      args: ["run", ...permissions, "--no-check", "--no-lock", path],
      stdin: "null",
    }).output();
    return { code, out: new TextDecoder().decode(stdout) };
  } finally {
    await Deno.remove(path);
  }
}

Deno.test({
  name: `a process ends with its code and runs nothing more${
    POSIX ? "" : " (skipped: needs a POSIX system)"
  }`,
  ignore: !POSIX,
  sanitizeOps: true,
  sanitizeResources: true,
  async fn() {
    assert.deepEqual(await end("-A"), { code: 7, out: "last line\n" });
  },
});

Deno.test({
  name: "without the permission the process ends without a prompt",
  sanitizeOps: true,
  sanitizeResources: true,
  async fn() {
    assert.deepEqual(await end(), { code: 7, out: "last line\nunloaded\n" });
  },
});
