import assert from "node:assert/strict";
import { VERSION } from "../core/version.ts";

const ROOT = new URL("..", import.meta.url).pathname;

const LINUX = Deno.build.os === "linux";

/** Runs the real program. */
async function svc(args: string[], env: Record<string, string> = {}) {
  const command = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", "cli.ts", ...args],
    cwd: ROOT,
    env,
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  });
  const { code, stdout, stderr } = await command.output();
  return { code, out: new TextDecoder().decode(stdout), err: new TextDecoder().decode(stderr) };
}

Deno.test({
  name: "the program's exit codes and streams",
  sanitizeOps: true,
  sanitizeResources: true,
  async fn() {
    assert.deepEqual(await svc(["--version"]), { code: 0, out: `${VERSION}\n`, err: "" });
    const wrong = await svc(["inspect", "--modle", "x"]);
    assert.equal(wrong.code, 2);
    assert.match(wrong.err, /Did you mean --model\?/);
  },
});

Deno.test({
  name: `without a driver the doctor names the one missing command${LINUX ? "" : " (skipped: needs Linux)"}`,
  ignore: !LINUX,
  sanitizeOps: true,
  sanitizeResources: true,
  async fn() {
    const nowhere = { VK_DRIVER_FILES: "/nonexistent", VK_ICD_FILENAMES: "/nonexistent" };
    const { code, out } = await svc(["doctor"], { ...nowhere, DENO_WEBGPU_BACKEND: "vulkan" });
    assert.equal(code, 3);
    assert.match(out, /this command is missing:\n {2}.*apt-get install -y libvulkan1 mesa-vulkan-drivers/);
  },
});
