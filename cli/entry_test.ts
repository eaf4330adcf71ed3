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
  name: "the program's exit statuses and streams",
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

const WINDOWS = Deno.build.os === "windows";

Deno.test({
  name: `a program named svc-server is the server, and any file its configuration; --svc makes it svc${
    WINDOWS ? " (skipped: needs links)" : ""
  }`,
  ignore: WINDOWS,
  sanitizeOps: true,
  sanitizeResources: true,
  async fn() {
    const folder = await Deno.makeTempDir();
    try {
      // The binary itself cannot be made without a download, but Deno under this name sees the same name.
      const program = `${folder}/svc-server`;
      await Deno.symlink(Deno.execPath(), program);
      const run = async (...args: string[]) => {
        const command = ["run", "-A", "--no-check", `${ROOT}cli.ts`, ...args];
        const { stdout, stderr } = await new Deno.Command(program, { args: command, cwd: folder }).output();
        return new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
      };
      assert.match(await run("--help"), /^Usage: svc-server /);
      assert.match(await run("--svc", "train", "--help"), /^Usage: svc train /);
      assert.equal(await run("svc"), "svc-server: Cannot load svc: there is no such file\n");
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
});

/** Doubles a list in every round. */
const EXPLODING =
  "{% set n = namespace(l=['x']) %}{% for i in range(40) %}{% set n.l = n.l + n.l %}{% endfor %}";

Deno.test({
  name: "a chat template that exceeds a limit is refused with its name and the limit by all commands",
  sanitizeOps: true,
  sanitizeResources: true,
  async fn() {
    const folder = await Deno.makeTempDir();
    try {
      await Deno.writeTextFile(`${folder}/exploding.jinja`, EXPLODING);
      const model = (text: string) =>
        text.replaceAll("../fixtures", `${ROOT}fixtures`)
          .replaceAll('"tiny_agent_tasks', `"${ROOT}examples/tiny_agent_tasks`)
          .replace(/^\[model\]$/m, '[model]\nchat_template = "exploding.jinja"');
      for (const name of ["sft", "grpo"]) {
        const example = await Deno.readTextFile(`${ROOT}examples/tiny_agent_${name}.toml`);
        await Deno.writeTextFile(`${folder}/${name}.toml`, model(example));
      }
      for (const args of [["train", "sft.toml"], ["train", "grpo.toml"], ["eval", "grpo.toml"]]) {
        const { code, err } = await svc([args[0]!, `${folder}/${args[1]}`]);
        assert.equal(code, 2, `${args}: ${err}`);
        assert.match(err, /^svc: Cannot .*exploding\.jinja.*MAX_TEMPLATE_STEPS = 500000/m, String(args));
      }
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
});
