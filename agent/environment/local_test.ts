import { deepEqual, equal, match, ok, rejects, throws } from "node:assert/strict";
import { join } from "node:path";
import { ManualClock } from "../../core/clock_fake.ts";
import { withFolder } from "../../tests/folder.ts";
import { findIsolation, SANDBOX_ROOT } from "./bubblewrap.ts";
import { MAX_OUTPUT_BYTES, runCommand } from "./command.ts";
import { environmentContract, scenarioWith, TOOL_CHECKS } from "./environment_contract.ts";
import { isolationText, type LocalEnvironmentOptions, localEnvironments } from "./local.ts";
import { QUOTED_CHARS } from "./verdict.ts";
import { bubblewrapLack } from "./local_sandbox_testing.ts";
import { FILES_TOOLSET } from "../tools/builtin/files.ts";
import type { Toolset } from "../tools/toolset.ts";
import { MAX_PROTECTED_BYTES, ProtectedFiles } from "./protected_files.ts";
import { TESTED_TOOLSETS, VERIFICATION_CHECKS } from "./verification_contract.ts";
import { MAX_RESULT_BYTES, removeWorkspaces, WORKSPACE_PREFIX } from "./workspace.ts";

const never = new AbortController().signal;

function options(more: Partial<LocalEnvironmentOptions> = {}): LocalEnvironmentOptions {
  return {
    allow_unsandboxed: true,
    tools: {},
    scenario_toolsets: ["files"],
    limits: { exec_timeout_secs: 30 },
    clock: new ManualClock(),
    findIsolation: () => Promise.resolve(UNCONFINED),
    ...more,
  };
}

async function names(folder: string): Promise<string[]> {
  return (await Array.fromAsync(Deno.readDir(folder))).map(({ name }) => name);
}

const directory = await Deno.makeTempDir();
globalThis.addEventListener("unload", () => Deno.removeSync(directory, { recursive: true }));

const UNCONFINED = { isolation: null, reason: "this test wants none" };

const checks = { ...TOOL_CHECKS, ...VERIFICATION_CHECKS };
const offered = { table: TESTED_TOOLSETS, scenario_toolsets: Object.keys(TESTED_TOOLSETS), directory };

environmentContract({ name: "local", checks }, () => {
  const clock = new ManualClock();
  const factory = localEnvironments(options({ clock, ...offered }));
  return Promise.resolve({ factory, clock, leftovers: () => names(directory) });
});

const lack = await bubblewrapLack();
if (lack === null) {
  environmentContract({ name: "local under bubblewrap", checks }, () => {
    const clock = new ManualClock();
    const factory = localEnvironments(options({ clock, ...offered, findIsolation }));
    return Promise.resolve({
      ...{ factory, clock, leftovers: () => names(directory) },
      workspace: SANDBOX_ROOT,
    });
  });
} else {
  Deno.test({ name: `local under bubblewrap (skipped: ${lack})`, ignore: true, fn() {} });
}

for (const confined of [false, true]) {
  const name = `Python reads nothing of the workspace by itself in a verification ${
    confined ? "under bubblewrap" : "without a sandbox"
  }`;
  Deno.test({
    name: confined && lack !== null ? `${name} (skipped: ${lack})` : name,
    ignore: confined && lack !== null,
    async fn() {
      const isolation = confined ? { findIsolation } : {};
      const environments = localEnvironments(options({ ...offered, ...isolation }));
      const verify = { command: ["python3", "-c", "raise SystemExit(3)"] };
      const task = scenarioWith({ toolset: "shell", verify });
      const environment = await environments.open(task, { seed: 1, signal: never });
      const line = "at=$(python3 -m site --user-site); mkdir -p $at; cd $at; " +
        'echo "import os; os._exit(0)" | tee usercustomize.py > x.py; echo "import x" > x.pth; python3 -c "exit(1)"';
      const { result } = await environment.call({ id: "", name: "sh", arguments: { line } }, never);
      equal(result, "exited 0 ", "it acts on the model's own programs");
      const { reward, verification } = await environment.grade(never);
      deepEqual([reward, verification?.code], [0, 3]);
      await environment.close();
    },
  });
}

/** Restores a workspace whose folders are closed, without the rights by which root opens any. */
const RESTORING = `
import { ProtectedFiles } from ${JSON.stringify(new URL("./protected_files.ts", import.meta.url).href)};
const root = await Deno.realPath(Deno.args[0]), test = root + "/tests/t";
await Deno.mkdir(root + "/tests");
await Deno.writeTextFile(test, "kept");
const files = await ProtectedFiles.keep(root, { globs: ["tests/**"], isExpected: () => false });
await Deno.remove(test);
await Deno.mkdir(test + "/x/y", { recursive: true });
await Deno.mkdir(root + "/tests/new");
await Deno.writeTextFile(root + "/tests/new/a", "");
await Deno.mkdir(root + "/out/in", { recursive: true });
for (const path of [test + "/x", test, root + "/tests/new", root + "/tests"]) await Deno.chmod(path, 0o100);
await Deno.chmod(root + "/out/in", 0);
await Deno.chmod(root + "/out", 0o500);
const opens = await Deno.readDir(root + "/tests")[Symbol.asyncIterator]().next().then(() => true, () => false);
const tampered = await files.restore();
const [out, inner] = [await Deno.stat(root + "/out"), await Deno.stat(root + "/out/in")];
await Deno.chmod(root + "/tests/new", 0o700);
const left = (await Array.fromAsync(Deno.readDir(root + "/tests/new"))).length;
console.log(JSON.stringify([opens, tampered, await Deno.readTextFile(test), left, out.mode & 0o777, inner.mode & 0o777]));
`;

Deno.test("closed folders do not keep a user without rights from restoring files", () =>
  withFolder(async (folder) => {
    await Deno.writeTextFile(join(folder, "restoring.ts"), RESTORING);
    const work = join(folder, "work");
    await Deno.mkdir(work);
    const program = [
      Deno.execPath(),
      "run",
      "-A",
      "--no-check",
      "--no-lock",
      join(folder, "restoring.ts"),
      work,
    ];
    const drop = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"];
    const [name, ...args] = [...Deno.uid() === 0 ? drop : [], ...program];
    const { stdout } = await new Deno.Command(name!, { args, stdin: "null", stderr: "inherit" }).output();
    deepEqual(JSON.parse(new TextDecoder().decode(stdout)), [false, true, "kept", 0, 0o500, 0]);
  }));

Deno.test("people are told once how programs run", async () => {
  const told: string[] = [];
  const environments = localEnvironments(options({ directory, notify: (message) => told.push(message) }));
  for (let i = 0; i < 2; i++) {
    await (await environments.open(scenarioWith({}), { seed: 1, signal: never })).close();
  }
  equal(told.length, 1);
  match(told[0]!, /run WITHOUT a sandbox, with all rights of this user: this test wants none/);
  match(told[0]!, /can read this user's files and the variables of its processes$/);
  const state = { isolation: null, reason: "none" };
  match(isolationText(state, ["A_KEY", "B_KEY"]), /processes, such as the key in A_KEY and B_KEY$/);
});

Deno.test("what is missing for a sandbox is said where it can be installed, and not where it fails", () => {
  const said = (reason: string) => isolationText({ isolation: null, reason });
  match(said("bwrap fails: no namespaces"), /WITHOUT a sandbox.*: bwrap fails: no namespaces\. They/);
});

Deno.test("without bwrap on the path the way to install it is said", async () => {
  // The search path of programs that a sandbox starts does not depend on this process.
  const program = `import { findIsolation } from ${
    JSON.stringify(new URL("./bubblewrap.ts", import.meta.url).href)
  };
    Deno.Command = class { output() { throw new Deno.errors.NotFound("no bwrap"); } };
    console.log((await findIsolation()).reason);`;
  const { stdout } = await new Deno.Command(Deno.execPath(), { args: ["eval", "--no-lock", program] })
    .output();
  const expected = Deno.build.os === "linux" ? /^bwrap is not installed \(apt-get/ : /needs Linux/;
  match(new TextDecoder().decode(stdout), expected);
});

Deno.test("local environments need allow_unsandboxed", () => {
  throws(() => localEnvironments(options({ allow_unsandboxed: false })), /set allow_unsandboxed = true/);
});

Deno.test("a scenario gets the toolset it names, else the default", async () => {
  const offered = localEnvironments(options());
  equal((await offered.catalog(scenarioWith({}), never)).name, "files");
  const none = scenarioWith({ toolset: undefined });
  await rejects(
    offered.catalog(none, never),
    /scenario "s" \(line 1\): it names no toolset and .* no default/,
  );
  const with_default = localEnvironments(options({ tools: { default: "files" } }));
  equal((await with_default.catalog(none, never)).name, "files");
  const other = scenarioWith({ toolset: "pyhton" });
  // Advice to set this value would lead to the next refusal.
  await rejects(offered.catalog(other, never), {
    code: "data_invalid",
    message: /no toolset "pyhton"; there are files, python, typescript$/,
  });
  const unlisted = localEnvironments(options({ scenario_toolsets: [] }));
  await rejects(
    unlisted.catalog(scenarioWith({ toolset: "files" }), never),
    /"files" is not offered: add it to/,
  );
  const python = localEnvironments(options({ scenario_toolsets: ["python"] }));
  equal((await python.catalog(scenarioWith({ toolset: "python" }), never)).name, "python");
});

Deno.test({
  name: "an attempt calls the tools of its scenario's toolset",
  sanitizeResources: true,
  async fn() {
    const parameters = { type: "object", properties: {} };
    const notes: Toolset = {
      name: "notes",
      version: "3",
      tools: [{ name: "take_note", description: "", parameters }],
      async run({ call, sandbox }) {
        await sandbox.write("notes.txt", `${call.name}!`);
        return { result: "noted", reward: null, done: false };
      },
    };
    const scenario_toolsets = ["files", "notes"];
    const environments = localEnvironments(options({
      ...{ directory, scenario_toolsets, tools: { default: "files" } },
      table: { files: FILES_TOOLSET, notes },
    }));
    const offered = await environments.catalogs(never);
    deepEqual(offered.map(({ name, version, is_default }) => [name, version, is_default]), [
      ["files", "1", true],
      ["notes", "3", false],
    ]);
    const task = scenarioWith({
      toolset: "notes",
      verify: { command: ["grep", "-q", "take_note!", "notes.txt"] },
    });
    deepEqual((await environments.catalog(task, never)).tools, notes.tools);
    const environment = await environments.open(task, { seed: 1, signal: never });
    equal((await environment.call({ id: "", name: "take_note", arguments: {} }, never)).result, "noted");
    equal((await environment.grade(never)).reward, 1);
    await environment.close();
  },
});

Deno.test({
  name: "a file above MAX_RESULT_BYTES is an error for the model, and loses no attempt",
  sanitizeResources: true,
  async fn() {
    const setup = [
      `head -c ${MAX_RESULT_BYTES} /dev/zero > fits; head -c ${MAX_RESULT_BYTES + 1} /dev/zero > large`,
    ];
    const environment = await localEnvironments(options({ directory })).open(scenarioWith({ setup }), {
      seed: 1,
      signal: never,
    });
    const read = (path: string) =>
      environment.call({ id: "", name: "read_file", arguments: { path } }, never);
    equal((await read("fits")).result?.length, MAX_RESULT_BYTES);
    equal((await read("large")).result, "error: too large to read");
    await environment.close();
  },
});

Deno.test("the end of a command's output is quoted, up to QUOTED_CHARS", async () => {
  const line = `printf %1000s x; printf ${"y".repeat(QUOTED_CHARS)}; exit 1`;
  const task = scenarioWith({ verify: { command: ["sh", "-c", line] } });
  const environment = await localEnvironments(options({ directory })).open(task, { seed: 1, signal: never });
  equal((await environment.grade(never)).verification?.output, "y".repeat(QUOTED_CHARS));
  await environment.close();
});

Deno.test({
  name: "protected files may have at most MAX_PROTECTED_BYTES",
  sanitizeResources: true,
  async fn() {
    const root = await Deno.makeTempDir();
    try {
      await Deno.writeTextFile(join(root, "test_one"), "1");
      await Deno.writeTextFile(join(root, "test_rest"), "");
      await Deno.truncate(join(root, "test_rest"), MAX_PROTECTED_BYTES - 1);
      const protection = { globs: ["test_*"], isExpected: () => false };
      equal((await ProtectedFiles.keep(root, protection)).files.length, 2);
      await Deno.truncate(join(root, "test_rest"), MAX_PROTECTED_BYTES);
      await rejects(ProtectedFiles.keep(root, protection), {
        code: "environment_failed",
        message: /MAX_PROTECTED_BYTES/,
      });
    } finally {
      await Deno.remove(root, { recursive: true });
    }
  },
});

Deno.test({
  name: "protected files are restored over links and folders that took their place",
  sanitizeResources: true,
  async fn() {
    const outside = await Deno.makeTempDir({ dir: directory });
    await Deno.writeTextFile(join(outside, "t.txt"), "elsewhere");
    const env = {
      files: { "tests/t.txt": "kept", "test_b": "kept" },
      verify: { command: ["sh", "-c", 'test "$(cat tests/t.txt test_b)" = keptkept'] },
    };
    const made = localEnvironments(options({ directory }));
    const before = new Set(await names(directory));
    const environment = await made.open(scenarioWith(env), { seed: 1, signal: never });
    const root = join(directory, (await names(directory)).find((name) => !before.has(name))!);
    await Deno.remove(join(root, "tests"), { recursive: true });
    await Deno.symlink(outside, join(root, "tests"));
    await Deno.remove(join(root, "test_b"));
    await Deno.mkdir(join(root, "test_b", "x"), { recursive: true });
    equal((await environment.grade(never)).reward, 1);
    equal(
      await Deno.readTextFile(join(outside, "t.txt")),
      "elsewhere",
      "nothing is written through the link",
    );
    await environment.close();
    await Deno.remove(outside, { recursive: true });
  },
});

Deno.test({
  name: "a command's output is capped and its exit status is reported",
  sanitizeOps: true,
  sanitizeResources: true,
  async fn() {
    const clock = new ManualClock();
    const run = (argv: string[], max_output_bytes: number | null = 10) => {
      const cap = max_output_bytes === null ? {} : { max_output_bytes };
      return runCommand({ argv, cwd: directory, timeout_ms: 1000, clock, signal: never, ...cap });
    };
    const flood = await run(["sh", "-c", "echo 0123456789abcdef; echo no >&2; exit 3"]);
    deepEqual(flood, { code: 3, ended: "exited", stdout: "0123456789", stderr: "no\n", capped: true });
    deepEqual(await run(["sh", "-c", "printf 0123456789"]), {
      code: 0,
      ended: "exited",
      stdout: "0123456789",
      stderr: "",
      capped: false,
    });
    equal((await run(["sh", "-c", "kill -9 $$"])).ended, "killed");
    equal(clock.sleeping, 0, "no timer stays");
    for (const more of [0, 1]) {
      const line = `head -c ${MAX_OUTPUT_BYTES + more} /dev/zero`;
      const { stdout, capped } = await run(["sh", "-c", line], null);
      deepEqual([stdout.length, capped], [MAX_OUTPUT_BYTES, more === 1]);
    }
    await rejects(run(["./absent"]), { code: "environment_failed" });
  },
});

Deno.test("only workspaces are removed from a folder, and the folder too when it is empty", async () => {
  const root = await Deno.makeTempDir();
  try {
    const folder = `${root}/workspaces`;
    await Deno.mkdir(`${folder}/${WORKSPACE_PREFIX}1/deep`, { recursive: true });
    await removeWorkspaces(folder);
    deepEqual(await Array.fromAsync(Deno.readDir(root)), []);
    await Deno.mkdir(`${folder}/${WORKSPACE_PREFIX}1`, { recursive: true });
    await Deno.writeTextFile(`${folder}/letter.txt`, "mine");
    await removeWorkspaces(folder);
    deepEqual((await Array.fromAsync(Deno.readDir(folder))).map(({ name }) => name), ["letter.txt"]);
    await removeWorkspaces(`${root}/nothing`);
    await Deno.remove(`${folder}/letter.txt`);
    await Deno.symlink(folder, `${root}/link`);
    await removeWorkspaces(`${root}/link`);
    ok((await Deno.lstat(`${root}/link`)).isSymlink);
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});
