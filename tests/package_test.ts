/**
 * The program as it is shipped: one bundled file with its launchers. It runs in an empty folder with an empty home, so
 * that workers, shaders, jobs and runs can only come from the bundle.
 */

import assert from "node:assert/strict";
import { relative } from "node:path";
import { fileURLToPath } from "node:url";
import { PERMISSION_FLAGS } from "../core/deno_flags.ts";
import { VERSION } from "../core/version.ts";
import { gpuTest } from "../kernels/gpu_testing.ts";
import { buildParts, shellLauncher, writeProgram } from "../scripts/bundle.ts";
import { compileArguments } from "../scripts/compile.ts";
import { fixturePath } from "./fixture.ts";
import { withFolder } from "./folder.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const FILES = [
  "LICENSE",
  "THIRD_PARTY_LICENSES.txt",
  "svc",
  "svc-server",
  "svc-server.cmd",
  "svc.cmd",
  "svc.js",
];

/** Files that know their own place: the entry, and one that does not look there in a bundle (tests/interface_test.ts). */
const FINDERS = ["cli.ts", "cli/interface.ts"];

interface Output {
  code: number;
  out: string;
  err: string;
}

async function output(program: string, options: Deno.CommandOptions): Promise<Output> {
  const { code, stdout, stderr } = await new Deno.Command(program, { stdin: "null", ...options }).output();
  const decoder = new TextDecoder();
  return { code, out: decoder.decode(stdout), err: decoder.decode(stderr) };
}

async function denoInfo(...args: string[]) {
  return JSON.parse((await output(Deno.execPath(), { args: ["info", "--json", ...args], cwd: ROOT })).out);
}

interface Module {
  specifier: string;
  kind: string;
  dependencies?: { code?: { specifier: string }; isDynamic?: boolean }[];
}

/** What the program loads: files whose code runs, files that are imported as text, and packages. */
async function neededParts(): Promise<{ files: string[]; texts: string[]; packages: string[] }> {
  const { modules, npmPackages } = await denoInfo("cli.ts") as {
    modules: Module[];
    npmPackages: Record<string, { name: string }>;
  };
  const by_name = new Map(modules.map((found) => [found.specifier, found]));
  const entry = [...by_name.keys()].find((name) => name.endsWith("/cli.ts"))!;
  const reached = new Set([entry]), packages = new Set<string>();
  for (const name of reached) {
    // Only types of other modules are left out of a bundle.
    for (const { code } of by_name.get(name)?.dependencies ?? []) if (code) reached.add(code.specifier);
  }
  const local = [...reached].filter((name) => name.startsWith("file:"));
  const pathsOf = (kind: string) =>
    local.filter((name) => by_name.get(name)?.kind === kind).map((name) =>
      relative(ROOT, fileURLToPath(name))
    );
  for (const name of reached) {
    const found = /^npm:\/?(.+)$/.exec(name)?.[1]!;
    const locked = found && Object.entries(npmPackages).find(([id]) => id.split("_")[0] === found);
    if (locked) packages.add(locked[1].name);
  }
  return { files: pathsOf("esm"), texts: pathsOf("external"), packages: [...packages].sort() };
}

Deno.test("two bundles have the same bytes: every shader and part, and no path of this machine", async () => {
  await withFolder(async (folder) => {
    const { sources } = await writeProgram(`${folder}/a`);
    await writeProgram(`${folder}/b`);
    const names = (await Array.fromAsync(Deno.readDir(`${folder}/a`))).map(({ name }) => name).sort();
    assert.deepEqual(names, FILES);
    const { npmCache } = await denoInfo();
    for (const name of FILES) {
      const text = await Deno.readTextFile(`${folder}/a/${name}`);
      assert.equal(text, await Deno.readTextFile(`${folder}/b/${name}`), name);
      for (const path of [ROOT, folder, npmCache, relative(ROOT, npmCache)]) {
        assert.ok(!text.includes(path), `${name} contains ${path}`);
      }
    }
    const { files, texts, packages } = await neededParts();
    assert.ok(
      texts.length > 50 && files.includes("agent/mcp/sdk.ts") && files.includes("server/route_table.ts"),
    );
    assert.deepEqual([...files, ...texts].filter((path) => !sources.includes(path)), []);
    const bundled = new Set(
      sources.flatMap((path) => /^npm\/((?:@[^/]+\/)?[^/]+)\/\d/.exec(path)?.[1] ?? []),
    );
    assert.ok(packages.includes("@modelcontextprotocol/client"));
    assert.deepEqual(packages.filter((name) => !bundled.has(name)), []);
    // Nothing is beside a bundle that a module could find by its own place.
    const code = await Promise.all(
      files.map(async (path) => [path, await Deno.readTextFile(`${ROOT}/${path}`)]),
    );
    const finders = code.filter(([, text]) => /^(?! \*).*import\.meta\.(?!main)/m.test(text!));
    assert.deepEqual(finders.map(([path]) => path).sort(), FINDERS);
    const for_tests = /_(test|fake|contract|testing)\.ts$/;
    assert.deepEqual(sources.filter((path) => for_tests.test(path)), []);
  });
});

Deno.test("the bundle lists the licence of each package in it, and the launchers its permissions", async () => {
  await withFolder(async (folder) => {
    const { sources } = await writeProgram(folder);
    const packages = new Set(
      sources.flatMap((path) => /^npm\/((?:@[^/]+\/)?[^/]+)\/\d/.exec(path)?.[1] ?? []),
    );
    // What a package contains of others is part of the program too.
    const contained = new Set(
      sources.flatMap((path) => /\/\.pnpm\/(@?[^@]+)@([\d.]+)[^]*/.exec(path)?.slice(1, 3).join(" ") ?? []),
    );
    assert.ok([...contained].some((name) => name.startsWith("ajv ")));
    const { npmPackages } = await denoInfo("cli.ts");
    const licenses = await Deno.readTextFile(`${folder}/THIRD_PARTY_LICENSES.txt`);
    const headings = [...licenses.matchAll(/^(.+)\n=+\n\n/gm)].map(([, heading]) => heading);
    const locked = Object.values(npmPackages as Record<string, { name: string; version: string }>);
    const expected = [
      ...[...packages].map((name) => `${name} ${locked.find((found) => found.name === name)!.version} (MIT)`),
      ...[...contained].map((name) => `${name} (MIT)`),
    ];
    // smol-toml, the MCP client and fast-uri have other licences.
    const as_mit = headings.map((heading) => heading!.replace(/BSD-3-Clause|Apache-2\.0/, "MIT"));
    assert.deepEqual(as_mit.sort(), expected.sort());
    assert.equal(licenses.match(/Copyright/gi)!.length >= expected.length, true);
    assert.ok(!PERMISSION_FLAGS.includes("--allow-all") && !PERMISSION_FLAGS.includes("-A"));
    for (const name of FILES.filter((file) => /^svc(-server)?(\.cmd)?$/.test(file))) {
      const launcher = await Deno.readTextFile(`${folder}/${name}`);
      assert.ok(launcher.includes(`${PERMISSION_FLAGS.join(" ")} "`), name);
      assert.ok(/svc\.js" server /.test(launcher) === name.startsWith("svc-server"), name);
    }
  });
});

Deno.test("a program without parts refuses configurations that need them, by the part's name", async () => {
  await withFolder(async (folder) => {
    const { packages } = await writeProgram(folder, buildParts({ with: "", without: "mcp,containers, ui" }));
    assert.ok(packages.every(({ name }) => !name.startsWith("@modelcontextprotocol/")));
    await Deno.writeTextFile(
      `${folder}/run.toml`,
      `[run]
algorithm = "agent_grpo"
[model]
path = "m.gguf"
[agent]
scenarios = "s.jsonl"
updates = 1
[[agent.mcp_servers]]
name = "x"
command = ["x"]
stateless = true
[agent.environment]
type = "container"
profile = "python"
`,
    );
    const args = [
      "run",
      ...PERMISSION_FLAGS,
      "--no-config",
      `${folder}/svc.js`,
      "tools",
      "list",
      `${folder}/run.toml`,
    ];
    const { code, err } = await output(Deno.execPath(), { args, cwd: folder });
    assert.equal(code, 2, err);
    assert.match(err, /Cannot use agent\.mcp_servers: the MCP client \(mcp\) is not in this build/);
    assert.match(err, /Cannot use agent\.environment\.type = "container": .* is not in this build/);
  });
  const parts = (added: string, without: string) => () => buildParts({ with: added, without });
  assert.throws(parts("", "mcp,grpc"), /Cannot leave out "grpc": the parts are mcp, containers, ui/);
  assert.throws(parts("mcp", ""), /Cannot add "mcp": the only part that is off by default is ui/);
  assert.throws(parts("ui", "ui"), /both add and leave out ui/);
});

Deno.test("a launcher starts no other version of Deno", async () => {
  await withFolder(async (folder) => {
    await Deno.writeTextFile(`${folder}/svc`, shellLauncher("svc", "", "2.9.6"), { mode: 0o755 });
    const start = async (version: string) => {
      const deno = `#!/bin/sh\necho "deno ${version} (stable, release)"\necho "v8 2.9.6"\n`;
      await Deno.writeTextFile(`${folder}/deno`, deno, { mode: 0o755 });
      return await output(`${folder}/svc`, { env: { PATH: `${folder}:${Deno.env.get("PATH")}` } });
    };
    assert.equal((await start("2.9.6")).code, 0);
    const err =
      "svc: Cannot start: the deno on the path is not 2.9.6; install it: npm install -g deno@2.9.6\n";
    for (const version of ["1.0.0", "2.9.60", "2.9.6.1", "2.9.", "2.9.6-rc.1"]) {
      assert.deepEqual(await start(version), { code: 1, out: "", err }, version);
    }
  });
});

Deno.test("the single binary embeds the bundle and nothing else", async () => {
  await withFolder(async (folder) => {
    await writeProgram(`${folder}/dist`);
    // Deno in place of denort gives no program that runs, but the same listing.
    const { code, out, err } = await output(Deno.execPath(), {
      args: compileArguments(`${folder}/dist/svc.js`, `${folder}/svc`),
      cwd: ROOT,
      env: { NO_COLOR: "1", DENORT_BIN: Deno.execPath() },
    });
    assert.equal(code, 0, err);
    const listed = [...`${out}${err}`.matchAll(/^[│├└ ─┬]+(\S+) \(/gm)].map(([, name]) => name);
    assert.deepEqual(listed, ["svc.js"]);
  });
});

const denort = Deno.env.get("DENORT_BIN");

Deno.test({
  name: `the single binary runs under both names${denort ? "" : " (skipped: DENORT_BIN names no denort)"}`,
  ignore: !denort,
  fn: () =>
    withFolder(async (folder) => {
      await writeProgram(`${folder}/dist`);
      const args = compileArguments(`${folder}/dist/svc.js`, `${folder}/svc`);
      assert.equal((await output(Deno.execPath(), { args, cwd: ROOT })).code, 0);
      await Deno.symlink(`${folder}/svc`, `${folder}/svc-server`);
      assert.match((await output(`${folder}/svc`, { args: ["--help"] })).out, /^Usage: svc /);
      assert.match((await output(`${folder}/svc-server`, { args: ["--help"] })).out, /^Usage: svc-server /);
      assert.equal((await output(`${folder}/svc`, { args: ["doctor"] })).code, 0);
    }),
});

/** The installed program, in an empty folder. */
interface Installed {
  /** The empty folder. */
  folder: string;
  options: Deno.CommandOptions;
  /** Runs `svc`, through a link on the path. */
  svc(...args: string[]): Promise<Output>;
}

/** Installs the program, and removes it with all that it wrote. */
async function withProgram(body: (installed: Installed) => Promise<void>): Promise<void> {
  await withFolder(async (root) => {
    const program = `${root}/it's here`, bin = `${root}/bin`, folder = `${root}/empty`;
    await writeProgram(program);
    for (const path of [bin, folder, `${root}/home`]) await Deno.mkdir(path);
    await Deno.symlink(Deno.execPath(), `${bin}/deno`);
    await Deno.symlink("../it's here/svc", `${bin}/svc`);
    await Deno.symlink(`${program}/svc-server`, `${bin}/svc-server`);
    // Deno would refuse to run with such a file near the program, if it looked for one.
    await Deno.writeTextFile(`${root}/deno.json`, "{");
    const passed = ["VK_DRIVER_FILES", "VK_ICD_FILENAMES", "XDG_RUNTIME_DIR"];
    const env = Object.fromEntries(passed.flatMap((name) => {
      const value = Deno.env.get(name);
      return value === undefined ? [] : [[name, value]];
    }));
    const path = `${bin}:${Deno.env.get("PATH")}`;
    const options = { cwd: folder, clearEnv: true, env: { ...env, PATH: path, HOME: `${root}/home` } };
    await body({ folder, options, svc: (...args) => output(`${bin}/svc`, { ...options, args }) });
  });
}

/** A run of one update with two attempts. */
async function agentRun(): Promise<string> {
  return `
[run]
algorithm = "agent_grpo"
[model]
path = ${JSON.stringify(await fixturePath("models/tiny-agent-f16.gguf"))}
[training]
ctx = 640
[agent]
scenarios = ${JSON.stringify(await fixturePath("models/tiny-agent/scenarios.train.jsonl"))}
updates = 1
scenarios_per_update = 1
group_size = 2
max_turns = 2
max_new_tokens_per_turn = 24
truncation = "min_reward"
[agent.environment]
type = "local"
allow_unsandboxed = true
scenario_toolsets = ["files"]
`;
}

gpuTest("the bundle trains an agent from an empty folder", async () => {
  await withProgram(async ({ folder, svc }) => {
    const version = await svc("--version");
    assert.deepEqual([version.code, version.err], [0, ""]);
    assert.match(version.out, new RegExp(`^${RegExp.escape(VERSION)}( \\([0-9a-f]{12}(-dirty)?\\))?\n$`));
    const commit = await output("git", { args: ["rev-parse", "--short=12", "HEAD"], cwd: ROOT });
    if (commit.code === 0) assert.ok(version.out.includes(commit.out.trim()), version.out);
    const doctor = await svc("doctor", "--json");
    assert.equal(doctor.code, 0, doctor.err);
    const facts: Record<string, string> = JSON.parse(doctor.out).facts;
    assert.deepEqual(Object.keys(facts).filter((name) => name.startsWith("permission")), []);
    assert.equal((await svc("init")).code, 0);
    const starter = await svc("train", "run.toml");
    assert.equal(starter.code, 2);
    assert.match(starter.err, /model\.gguf/);
    await Deno.writeTextFile(`${folder}/agent.toml`, await agentRun());
    const trained = await svc("train", "agent.toml", "--json");
    assert.equal(trained.code, 0, trained.err);
    const adapter = await svc("inspect", "runs/agent/adapter.gguf");
    assert.match(adapter.out, /rank +8/);
  });
});

gpuTest("the bundle's server answers, runs jobs and starts runs from an empty folder", async () => {
  await withProgram(async ({ folder, options }) => {
    await Deno.copyFile(await fixturePath("models/tiny-agent-f16.gguf"), `${folder}/model.gguf`);
    await Deno.writeTextFile(`${folder}/rows.jsonl`, '{"text":"Once there was a cat."}\n');
    await Deno.writeTextFile(`${folder}/server.toml`, 'bind = "127.0.0.1:0"\npath_roots = ["."]\n');
    const child = new Deno.Command(`${folder}/../bin/svc-server`, {
      ...options,
      args: ["server.toml"],
      stdout: "null",
      stderr: "piped",
    }).spawn();
    const reader = child.stderr.pipeThrough(new TextDecoderStream()).getReader();
    let log = "", url: string | undefined;
    while (url === undefined) {
      const { value, done } = await reader.read();
      assert.ok(!done, `the server ended: ${log}`);
      log += value;
      url = /listens at (http:\S+)/.exec(log)?.[1];
    }
    const rest = (async () => {
      while (!(await reader.read()).done);
    })();
    try {
      await useServer(`${url}/v1`, folder);
    } finally {
      child.kill("SIGTERM");
      await rest;
    }
    assert.equal((await child.status).code, 0);
  });
});

async function useServer(url: string, folder: string): Promise<void> {
  assert.equal((await (await fetch(`${url}/health`)).json()).version, VERSION);
  // The device probe is a worker, a plan is a job, and a run is a process with workers of its own.
  assert.equal((await (await fetch(`${url}/capabilities`)).json()).devices.length, 1);
  const recipe = {
    recipe: "sft",
    model: `${folder}/model.gguf`,
    data: `${folder}/rows.jsonl`,
    budget: { updates: 1 },
    params: { "training.ctx": 64 },
  };
  const request = {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(recipe),
  };
  const planned = await fetch(`${url}/plan`, request);
  assert.equal(planned.status, 200, await planned.text());
  const created = await fetch(`${url}/runs`, request);
  const { id } = await created.json();
  assert.equal(created.status, 201);
  const response = await fetch(`${url}/runs/${id}/events`);
  let events = "";
  for await (const piece of response.body!.pipeThrough(new TextDecoderStream())) {
    events += piece;
    // The stream ends with the run, but waits for an interrupted one to be resumed.
    if (events.includes('"interrupted"')) break;
  }
  assert.match(events, /"state":"completed"/);
}
