import assert from "node:assert/strict";
import { BUILTIN_TOOLS } from "../config/sections/environment.ts";
import type { ToolDefinition } from "../core/chat.ts";
import { configJsonSchema } from "../config/describe.ts";
import { ServiceError } from "../core/errors.ts";
import { VERSION } from "../core/version.ts";
import { EXIT, exitCodeOf } from "./exit_codes.ts";
import { runCli } from "./program.ts";
import { runServerProgram } from "./server_program.ts";
import { printable } from "../core/text.ts";
import { writeGguf } from "../trainer/formats/gguf_writer.ts";
import { runSvc, testContext, testTerminal } from "./context_fake.ts";

const EXAMPLE = new URL("../examples/tiny_agent_grpo.toml", import.meta.url).pathname;

Deno.test("requested output goes to standard output with exit status 0", async () => {
  assert.deepEqual(await runSvc("--version"), { code: 0, out: `${VERSION}\n`, err: "" });
  const help = await runSvc("tools", "list", "--help");
  assert.equal(help.code, 0);
  assert.match(help.out, /Usage: svc tools list/);
  const schema = await runSvc("config", "schema");
  assert.deepEqual(JSON.parse(schema.out), configJsonSchema());
});

Deno.test("svc server has the arguments and the exit status of svc-server", async () => {
  const lines = [["s.toml"], [], ["view", "runs/x", "--open", "--port", "80"], ["openapi"], ["--help"], [
    "-x",
  ]];
  for (const [code, line] of lines.entries()) {
    let given: readonly string[] | undefined;
    const runServer = (args: readonly string[]) => {
      given = args;
      return Promise.resolve(code);
    };
    assert.equal(await runCli(["server", ...line], testContext({ runServer })), code);
    assert.deepEqual(given, line);
  }
});

Deno.test("a usage error goes to standard error with exit status 2", async () => {
  for (
    const [args, message] of [
      [["trian"], /unknown command 'trian'/],
      [["tols"], /Did you mean tools\?/],
      [["tools", "list"], /missing required argument 'config'/],
      [["tools", "list", EXAMPLE, "--jason"], /unknown option '--jason'/],
      [["tools", "list", EXAMPLE, "another"], /\n {2}another: is no override: write key=value/],
      [["inspect", EXAMPLE, "another"], /too many arguments/],
      [["init", "--algorithm", "ppo"], /Allowed choices are agent_grpo, sft/],
    ] as [string[], RegExp][]
  ) {
    const { code, out, err } = await runSvc(...args);
    assert.deepEqual([code, out], [EXIT.usage, ""], args.join(" "));
    assert.match(err, message);
    assert.match(err, /^svc: Cannot [^\n]*\n( {2}[^\n]*\n)+$/, "one error, whose further lines are set in");
  }
  assert.equal(
    (await runSvc("trian")).err,
    "svc: Cannot read the command line: unknown command 'trian'\n  (Did you mean train?)\n" +
      "  (--help shows the arguments)\n",
  );
  assert.equal((await runSvc()).code, EXIT.usage);
});

Deno.test("a wrong configuration lists every problem with file, line and the nearest key", async () => {
  const path = await Deno.makeTempFile({ suffix: ".toml" });
  try {
    await Deno.writeTextFile(path, '[run]\nalgorithm = "sft"\n[modle]\n[lora]\nrnak = 8\n');
    const { code, err } = await runSvc("tools", "list", path);
    assert.equal(code, EXIT.usage);
    const lines = err.trimEnd().split("\n");
    assert.equal(lines[0], `svc: Cannot load ${path}: 4 problems`);
    assert.ok(lines.includes(`  ${path}:3: modle: is no known section; did you mean "model"?`), err);
    assert.ok(lines.includes(`  ${path}:5: lora.rnak: is no known key; did you mean "lora.rank"?`), err);
  } finally {
    await Deno.remove(path);
  }
});

Deno.test("tools are listed as the model sees them, without loading the model", async () => {
  const { code, out } = await runSvc("tools", "list", EXAMPLE);
  assert.equal(code, 0);
  assert.match(out, /^toolset files, version 1\n/);
  assert.match(out, /\n {2}write_file\(path, content\) {2}Write a file\.\n/);
  const json = await runSvc("tools", "list", EXAMPLE, "--json");
  const fixture = new URL("../fixtures/models/tiny-agent/tools.json", import.meta.url);
  const [listing] = JSON.parse(json.out) as { toolset: string; tools: unknown[] }[];
  assert.equal(listing!.toolset, "files");
  assert.equal(JSON.stringify(listing!.tools), JSON.stringify(JSON.parse(await Deno.readTextFile(fixture))));
});

Deno.test("the toolsets of a configuration are listed with their versions, the default first", async () => {
  const path = new URL("../examples/python_repair.toml", import.meta.url).pathname;
  const override = 'agent.environment.scenario_toolsets=["typescript", "short"]';
  const { code, out } = await runSvc("tools", "list", path, override, "--json");
  assert.equal(code, 0);
  const listing = JSON.parse(out) as {
    toolset: string;
    version: string;
    default: boolean;
    tools: ToolDefinition[];
  }[];
  assert.deepEqual(
    listing.map(({ toolset, version, default: is_default }) => [toolset, version, is_default]),
    [
      ["python", "1", true],
      ["typescript", "1", false],
      ["short", "1", false],
    ],
  );
  const names = (at: number) => listing[at]!.tools.map((tool) => tool.function.name);
  assert.deepEqual(names(0), BUILTIN_TOOLS.python);
  assert.deepEqual(names(2), ["python", "edit_file", "submit", "count_words"]);
});

Deno.test("a configuration without rollouts exposes no tools", async () => {
  const path = new URL("../examples/tiny_agent_sft.toml", import.meta.url).pathname;
  assert.equal((await runSvc("tools", "list", path)).out, "this configuration exposes no tools\n");
  assert.deepEqual(JSON.parse((await runSvc("tools", "list", path, "--json")).out), []);
});

Deno.test("errors have the exit statuses of the contract", () => {
  const code = (error: ConstructorParameters<typeof ServiceError>[0]) =>
    exitCodeOf(new ServiceError(error, "x"));
  assert.deepEqual(
    (["config_invalid", "data_invalid", "already_exists", "not_built", "path_not_found"] as const).map(code),
    [2, 2, 2, 2, 2],
  );
  assert.equal(code("device_unavailable"), 3);
  assert.equal(code("cancelled"), 130);
  assert.deepEqual((["device_lost", "out_of_memory", "loss_not_finite", "internal"] as const).map(code), [
    1,
    1,
    1,
    1,
  ]);
  assert.equal(exitCodeOf(new Error("bug")), 1);
});

Deno.test("text from files, models and arguments neither controls the terminal nor starts a line", async () => {
  const folder = await Deno.makeTempDir();
  const steering = "\x1b[2J\x9b1m\u202e\u200b";
  try {
    const path = `${folder}/run\nsvc: run completed${steering}.toml`;
    await Deno.writeTextFile(
      path,
      '"\\u001b[2J\\nsvc: done" = 1\n[run]\nalgorithm = "\\u009b2J"\n[model]\npath = "\\u001b\\nx"\n',
    );
    for (
      const args of [
        ["tools", "list", path],
        ["train", path],
        ["inspect", path],
        ["inspect", `${path}x`],
        [
          "init",
          `${path}/${steering}`,
        ],
        [`tr${steering}`],
        ["tools", "list", path, `--${steering}`],
        ["server", path],
      ]
    ) {
      const terminal = testTerminal();
      const runServer = (args: readonly string[]) =>
        runServerProgram(args, { terminal, entry_url: "data:," });
      const code = await runCli(args, testContext({ terminal, runServer }));
      assert.equal(code, EXIT.usage, terminal.err);
      assert.equal(terminal.err, printable(terminal.err));
      const [first, ...others] = terminal.err.trimEnd().split("\n");
      assert.match(first!, /^svc(-server)?: Cannot /);
      assert.deepEqual(others.filter((line) => !line.startsWith("  ")), []);
    }
    await writeGguf(`${folder}/x.gguf`, {
      metadata: new Map([
        ["general.architecture", { type: "string", value: `a${steering}\nparameters  1` }],
        ["general.name", { type: "string", value: steering }],
      ]),
      tensors: [],
    });
    const { code, out } = await runSvc("inspect", `${folder}/x.gguf`);
    assert.equal(code, 0);
    assert.equal(out, printable(out));
    assert.equal(out.split("\n").filter((line) => line.startsWith("parameters")).length, 1);
    const json = await runSvc("inspect", `${folder}/x.gguf`, "--json");
    assert.equal(json.out, printable(json.out));
    assert.equal(JSON.parse(json.out).name, steering);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("a path that the system refuses ends a command with the reason and no stack", async () => {
  const folder = await Deno.makeTempDir();
  try {
    await Deno.writeTextFile(`${folder}/file`, "");
    await Deno.symlink("loop", `${folder}/loop`);
    const places: [string, string][] = [
      [`${folder}/file/x`, "a part of the path is a file, not a folder"],
      [`${folder}/loop`, "its symbolic links lead in a circle"],
      [`${folder}/${"a".repeat(300)}`, "the name is too long"],
    ];
    for (const [place, reason] of places) {
      for (const args of [["train", place], ["eval", place], ["tools", "list", place], ["inspect", place]]) {
        const { code, err } = await runSvc(...args);
        assert.deepEqual([code, err], [
          EXIT.usage,
          `svc: Cannot ${args[0] === "inspect" ? "read" : "load"} ${place}: ${reason}\n`,
        ]);
      }
    }
    const { code, err } = await runSvc("init", `${folder}/file/x`);
    assert.deepEqual([code, err], [
      EXIT.usage,
      `svc: Cannot make the folder ${folder}/file: a file is there\n`,
    ]);
    assert.equal((await runSvc("init", "/dev/full/x")).code, EXIT.usage);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
