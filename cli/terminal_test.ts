import assert from "node:assert/strict";

const POSIX = Deno.build.os !== "windows";
const LINUX = Deno.build.os === "linux";

/** A command that prints a lot, then cleans up as a run does with its folder. */
const PRINTER = `
import { processTerminal } from ${JSON.stringify(new URL("./terminal.ts", import.meta.url).href)};
const terminal = processTerminal();
for (let i = 0; i < 100_000; i++) terminal.line("line " + i);
await Deno.writeTextFile(Deno.args[0], terminal.is_lost ? "lost" : "heard");
Deno.exit(7);
`;

/** Runs the printer with its standard output redirected by a shell. */
async function print(redirection: string): Promise<{ code: number; err: string; left: string }> {
  const folder = await Deno.makeTempDir();
  try {
    await Deno.writeTextFile(`${folder}/printer.ts`, PRINTER);
    const line = `"${Deno.execPath()}" run -A --no-check --no-lock printer.ts left ${redirection}`;
    const command = new Deno.Command("sh", {
      args: ["-c", line],
      cwd: folder,
      stdin: "null",
      stdout: "null",
    });
    const { code, stderr } = await command.output();
    return {
      code,
      err: new TextDecoder().decode(stderr),
      left: await Deno.readTextFile(`${folder}/left`),
    };
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

const SAID = /^svc(-server)?: Cannot write to standard output any more: [^\n]+\n$/;

Deno.test({
  name: `a full standard output is told once, and the command goes on${
    LINUX ? "" : " (skipped: needs /dev/full)"
  }`,
  ignore: !LINUX,
  sanitizeOps: true,
  sanitizeResources: true,
  async fn() {
    const { code, err, left } = await print("> /dev/full");
    assert.deepEqual([code, left], [7, "lost"]);
    assert.match(err, SAID);
    assert.match(err, /os error 28/);
    assert.deepEqual(await print("> /dev/full 2> /dev/full"), { code: 7, err: "", left: "lost" });
    for (const args of ["cli.ts config schema", "cli.ts --version", "main.ts --version", "main.ts --help"]) {
      const line = `"${Deno.execPath()}" run -A --no-check ${args} > /dev/full`;
      const cwd = new URL("..", import.meta.url).pathname;
      const command = new Deno.Command("sh", { args: ["-c", line], cwd, stdin: "null", stdout: "null" });
      const { code, stderr } = await command.output();
      assert.equal(code, 1, `${args}: its result was lost`);
      assert.match(new TextDecoder().decode(stderr), SAID);
    }
  },
});

Deno.test({
  name: `a reader that leaves, and a closed output, stop nothing${
    POSIX ? "" : " (skipped: needs a POSIX shell)"
  }`,
  ignore: !POSIX,
  sanitizeOps: true,
  sanitizeResources: true,
  async fn() {
    // The exit status of a pipe is that of its last program.
    const head = await print("| head -1");
    assert.deepEqual([head.code, head.left], [0, "lost"]);
    assert.match(head.err, SAID);
    assert.deepEqual(await print(">&-").then(({ code }) => code), 7);
    assert.deepEqual(await print("> /dev/null"), { code: 7, err: "", left: "heard" });
  },
});
