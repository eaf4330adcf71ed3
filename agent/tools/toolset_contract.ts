/** Tests of the built-in toolsets for every sandbox. */

import { deepEqual, equal, match, ok } from "node:assert/strict";
import { NEVER, type TestedSandbox, Tools } from "./called_tools_testing.ts";
import { MAX_STREAM_CHARS, OMISSION } from "./command_text.ts";
import { MAX_READ_CHARS } from "./file_tools.ts";
import {
  DEFAULT_MATCHES,
  MAX_COMMAND_BYTES,
  MAX_GREP_CHARS,
  MAX_LINE_CHARS,
  MAX_MATCHES,
} from "./program_tools.ts";
import { MAX_HEAP_MB } from "./builtin/typescript.ts";
import { checkCall, type Toolset } from "./toolset.ts";
import { configuredToolsets, TOOLSETS } from "./toolsets.ts";

/** What a machine lacks for some of the tests. */
export interface ToolsetContractOptions {
  /** Why the tests of one toolset are skipped. */
  lacks?: Partial<Record<"python" | "typescript", string>>;
}

type Check = (tools: Tools) => Promise<void>;

const SHARED: Readonly<Record<string, Check>> = {
  "bash answers with output, errors and status": checkBash,
  "output is cut in its middle": checkCut,
  "a command ends at its limit, with all that it started": checkLimit,
  "files are read in parts": checkRead,
  "files are written and edited": checkEdit,
  "directories are listed": checkList,
  "grep finds lines": checkGrep,
  "no path and no link leads out of the workspace": checkOutside,
  "binary and huge files are no failure": checkHuge,
  "submit ends the attempt": checkSubmit,
};

const PYTHON: Readonly<Record<string, Check>> = {
  "python runs code": checkPython,
  "run_tests runs pytest, else unittest": checkPythonTests,
};

const TYPESCRIPT: Readonly<Record<string, Check>> = {
  "typescript runs code that can use the workspace and nothing else": checkTypescript,
  "run_tests runs deno test": checkTypescriptTests,
};

/** Registers the tests under `name`; each opens a sandbox of its own. */
export function toolsetContract(
  name: string,
  open: () => Promise<TestedSandbox>,
  { lacks = {} }: ToolsetContractOptions = {},
): void {
  const register = (toolset: Toolset, checks: Readonly<Record<string, Check>>, lack?: string) => {
    const text = lack === undefined ? "" : ` (skipped: ${lack})`;
    Deno.test({
      name: `${name}: toolset ${toolset.name}${text}`,
      ignore: lack !== undefined,
      sanitizeOps: true,
      sanitizeResources: true,
      async fn(t) {
        for (const [check, run] of Object.entries(checks)) {
          await t.step(check, async () => {
            const tested = await open();
            try {
              await run(new Tools(toolset, tested));
            } finally {
              await tested.close();
            }
          });
        }
      },
    });
  };
  // The tools of both toolsets are the same.
  register(TOOLSETS.python!, SHARED);
  register(TOOLSETS.python!, PYTHON, lacks.python);
  register(TOOLSETS.typescript!, TYPESCRIPT, lacks.typescript);
  register(configuredToolsets({ own: OWN }).own!, { "programs of a configuration are tools": checkOwn });
}

async function checkBash(tools: Tools): Promise<void> {
  equal(await tools.bash("echo one; echo two"), "one\ntwo");
  equal(await tools.bash("true"), "[no output]");
  equal(await tools.bash("echo out; echo wrong >&2; exit 3"), "out\n[stderr]\nwrong\n[exit status 3]");
  equal(await tools.bash("printf '\\033[31mred\\033[0m\\r\\n'"), "red");
  equal(await tools.bash("cat; echo read"), "read", "there is no input");
  equal(await tools.bash("cd /; X=1"), "[no output]");
  equal(
    await tools.bash('echo "$X"; [ "$PWD" = "$HOME" ] && echo home'),
    "\nhome",
    "each call is a new shell",
  );
  match(await tools.bash("no-such-program"), /no-such-program.*\n\[exit status 127\]$/);
  equal(await tools.bash("true\0"), "error: the command has a zero byte");
  equal(await tools.bash(`: ${"é".repeat(MAX_COMMAND_BYTES / 2 - 1)}`), "[no output]");
  match(await tools.bash(`: ${"é".repeat(MAX_COMMAND_BYTES / 2)}`), /^error: .* longer than 100000 bytes/);
}

async function checkCut(tools: Tools): Promise<void> {
  const half = MAX_STREAM_CHARS / 2;
  const fits = await tools.bash(`head -c ${MAX_STREAM_CHARS} /dev/zero | tr '\\0' x`);
  equal(fits, "x".repeat(MAX_STREAM_CHARS));
  const long = await tools.bash(
    `printf start; head -c ${MAX_STREAM_CHARS} /dev/zero | tr '\\0' x; printf end`,
  );
  equal(long, `start${"x".repeat(half - 5)}\n${OMISSION}\n${"x".repeat(half - 3)}end`);
  // More than a sandbox keeps.
  const flood = await tools.bash("printf start; head -c 20000000 /dev/zero | tr '\\0' x; printf end; exit 1");
  ok(flood.startsWith("startxxx") && flood.length < 2 * MAX_STREAM_CHARS, String(flood.length));
  match(flood, /\n\[exit status 1\]$/);
  ok(flood.includes(OMISSION) || flood.includes("[later output was discarded]"));
}

async function checkLimit(tools: Tools): Promise<void> {
  const command = "echo begun; trap '' TERM; setsid sleep 1000 & sleep 1000";
  match(await tools.callToLimit("bash", { command }), /^(begun\n)?\[ended: it ran past the time limit\]$/);
  match(await tools.callToLimit("bash", { command: "yes" }), /\[ended: it ran past the time limit\]$/);
  equal(await tools.bash("(sleep 1000 &) ; setsid sleep 1000 & echo done"), "done", "nothing is waited for");
  equal(await tools.bash("echo alive"), "alive");
}

async function checkRead(tools: Tools): Promise<void> {
  const read = (args: object) => tools.call("read_file", { path: "a.txt", ...args });
  const lines = Array.from({ length: 10 }, (_, i) => `line ${i + 1}\n`);
  await tools.write("a.txt", lines.join(""));
  equal(await read({}), lines.join(""));
  equal(await read({ offset: 9 }), "line 9\nline 10\n[lines 9 to 10 of 10]");
  equal(await read({ offset: 2, limit: 1 }), "line 2\n[lines 2 to 2 of 10]");
  equal(await read({ limit: 20 }), lines.join(""));
  equal(await read({ offset: 11 }), "error: the file has 10 lines");
  equal(await read({ offset: 0 }), "error: offset and limit must be at least 1");
  await tools.write("a.txt", "no end");
  equal(await read({}), "no end");
  await tools.write("a.txt", "");
  equal(await read({}), "");
  const long = "x".repeat(99) + "\n";
  await tools.write("a.txt", long.repeat(MAX_READ_CHARS / 100 + 1));
  const last = MAX_READ_CHARS / 100;
  equal(await read({}), `${long.repeat(last)}[lines 1 to ${last} of ${last + 1}]`);
  await tools.write("a.txt", "y".repeat(MAX_READ_CHARS + 1));
  match(await read({}), /^y{16000}\n\[line 1 of 1 is cut: it has more than 16000 characters\]$/);
  equal(await tools.call("read_file", { path: "none" }), "error: no such file");
  equal(await tools.call("read_file", { path: "." }), "error: no such file");
}

async function checkEdit(tools: Tools): Promise<void> {
  const edit = (old_text: string, new_text: string, path = "d/a.txt") =>
    tools.call("edit_file", { path, old_text, new_text });
  equal(await tools.call("write_file", { path: "d/a.txt", content: "one $& two\none\n" }), "ok");
  equal(await edit("two", "$& $1 $`"), "ok", "the new text is taken as it is");
  equal(await tools.tested.sandbox.read("d/a.txt"), "one $& $& $1 $`\none\n");
  equal(await edit("three", "x"), "error: old_text does not occur in the file");
  equal(await edit("one", "x"), "error: old_text occurs 2 times; add lines around it until it occurs once");
  equal(await edit("", "x"), "error: old_text is empty");
  equal(await edit("one", "one"), "error: old_text and new_text are the same");
  equal(await edit("a", "b", "none"), "error: no such file");
  equal(await edit("$`\none\n", ""), "ok");
  equal(await tools.tested.sandbox.read("d/a.txt"), "one $& $& $1 ");
  await tools.write("d/a.txt", "aaa");
  equal(await edit("aa", "b"), "error: old_text occurs 2 times; add lines around it until it occurs once");
  equal(await tools.call("write_file", { path: "d", content: "" }), "error: cannot write there");
  await tools.write("d/a.txt", "\ufeffmark\r\nend\r\n");
  equal(await edit("end", "last"), "ok");
  equal((await tools.bash("od -An -tx1 d/a.txt | tr -d ' \\n'")).slice(0, 18), "efbbbf6d61726b0d0a");
  match(await tools.bash("chmod 000 d/a.txt; test -r d/a.txt && echo root"), /root|status 1/);
}

async function checkList(tools: Tools): Promise<void> {
  equal(await tools.call("list_dir"), "[empty]");
  await tools.write("b/x", "");
  await tools.write("a", "");
  await tools.write("Z", "");
  await tools.bash("touch $'new\\nline'");
  equal(await tools.call("list_dir"), 'Z\na\nb/\n"new\\nline"');
  equal(await tools.call("list_dir", { path: "b" }), "x");
  equal(await tools.call("list_dir", { path: "a" }), "error: no such directory");
  equal(await tools.call("list_dir", { path: "none" }), "error: no such directory");
  await tools.bash("mkdir many && cd many && seq -f 'file_number_%05.0f' 1 2000 | xargs touch");
  match(
    await tools.call("list_dir", { path: "many" }),
    /^file_number_00001\n[^]*\n\[\d+ more are left out\]$/,
  );
}

async function checkGrep(tools: Tools): Promise<void> {
  const grep = (pattern: string, more: object = {}) => tools.call("grep", { pattern, ...more });
  await tools.write("a.py", "import os\n\ndef one():\n    return 1\n");
  await tools.write("sub/b.py", "def two():\n    return 22\n");
  equal(await grep("return [0-9]+$", { path: "sub" }), "sub/b.py:2:    return 22");
  deepEqual((await grep("^def (one|two)")).split("\n").sort(), [
    "a.py:3:def one():",
    "sub/b.py:1:def two():",
  ]);
  equal(await grep("import", { path: "a.py" }), "a.py:1:import os");
  equal(await grep("nowhere"), "[no matches]");
  match(await grep("(", {}), /^error: .*[Uu]nmatched/);
  equal(await grep("x", { path: "none" }), "error: no such file or directory");
  equal(await grep("-r"), "[no matches]", "a pattern is no option");
  await tools.write("-e", "dash\n");
  equal(await grep("dash", { path: "-e" }), "-e:1:dash");
  await tools.write("many", "hit\n".repeat(MAX_MATCHES + 10));
  const count = (text: string) => text.split("\n").filter((line) => line.includes("hit")).length;
  const some = await grep("hit", { path: "many" });
  equal(count(some), DEFAULT_MATCHES);
  match(some, /\n\[more matches are left out\]$/);
  equal(await grep("hit", { path: "many", max_matches: 1 }), "many:1:hit\n[more matches are left out]");
  equal(await grep("hit", { max_matches: MAX_MATCHES + 1 }), "error: max_matches must be from 1 to 1000");
  await tools.bash("rm many; printf 'zeile\\n' > $'odd\\nname'; printf '\\0zeile\\n' > binary; mkfifo pipe");
  equal(await grep("zeile"), '"odd\\nname":1:zeile');
  equal(await grep("x", { path: "pipe" }), "error: no such file or directory");
  await tools.write("wide", `${"w".repeat(MAX_LINE_CHARS + 1)}\n`.repeat(100));
  const wide = await grep("w+$", { path: "wide" });
  ok(wide.startsWith(`wide:1:${"w".repeat(MAX_LINE_CHARS)} ...\n`) && wide.length <= MAX_GREP_CHARS + 40);
  match(wide, /\n\[more matches are left out\]$/);
}

async function checkOutside(tools: Tools): Promise<void> {
  await tools.bash(
    "ln -s /etc out; ln -s / root; ln -s /etc/passwd file; ln -s loop loop; mkdir in; ln -s in way",
  );
  const outside = "error: path outside the workspace";
  for (
    const path of ["..", "/etc/passwd", "out/passwd", "root/etc/passwd", "file", "loop", "in/../../x", "a\0b"]
  ) {
    equal(await tools.call("read_file", { path }), outside, path);
    equal(await tools.call("write_file", { path, content: "!" }), outside, path);
    equal(await tools.call("edit_file", { path, old_text: "root", new_text: "!" }), outside, path);
    equal(await tools.call("list_dir", { path }), outside, path);
    equal(await tools.call("grep", { pattern: "root", path }), outside, path);
    equal(await tools.call("run_tests", { path }), outside, path);
  }
  equal(await tools.call("grep", { pattern: "root" }), "[no matches]", "links below are not followed");
  equal(await tools.call("write_file", { path: "way/y", content: "through\n" }), "ok");
  equal(await tools.call("grep", { pattern: "th", path: "way" }), "way/y:1:through");
}

async function checkHuge(tools: Tools): Promise<void> {
  await tools.bash(
    "head -c 3000000 /dev/zero | tr '\\0' x > huge; printf 'a\\0b' > zero; printf 'a\\377b' > bytes",
  );
  equal(await tools.call("read_file", { path: "huge" }), "error: too large to read");
  equal(
    await tools.call("edit_file", { path: "huge", old_text: "a", new_text: "b" }),
    "error: too large to read",
  );
  equal(await tools.call("grep", { pattern: "y", path: "huge" }), "[no matches]");
  // 5,000 names of 250 characters are more than a listing may have.
  const name = "n".repeat(245);
  await tools.bash(`mkdir many; cd many; seq -f "${name}%05g" 5000 | xargs touch`);
  equal(await tools.call("list_dir", { path: "many" }), "error: too large to read");
  await tools.bash("ln -s $'x\\377/y' odd; mkfifo pipe");
  for (const path of ["odd", "pipe"]) {
    equal(await tools.call("read_file", { path }), "error: no such file");
    equal(await tools.call("list_dir", { path }), "error: no such directory");
  }
  for (const path of ["zero", "bytes"]) {
    equal(await tools.call("read_file", { path }), "error: not a text file in UTF-8");
    equal(
      await tools.call("edit_file", { path, old_text: "a", new_text: "b" }),
      "error: not a text file in UTF-8",
      "an edit would change other bytes",
    );
  }
}

async function checkSubmit({ toolset, tested: { sandbox } }: Tools): Promise<void> {
  const call = { id: "c", name: "submit", arguments: {} };
  deepEqual(await toolset.run({ call, sandbox, signal: NEVER }), { result: null, reward: null, done: true });
}

async function checkPython(tools: Tools): Promise<void> {
  const python = (code: string) => tools.call("python", { code });
  equal(await python("print(6 * 7)"), "42");
  await tools.write("calc.py", "def add(a, b):\n    return a + b\n");
  equal(await python("from calc import add\nprint(add(2, 3), 'ä')"), "5 ä");
  const failed = await python("print('before')\n1 / 0");
  match(
    failed,
    /^before\n\[stderr\]\nTraceback[^]*line 2[^]*ZeroDivisionError: division by zero\n\[exit status 1\]$/,
  );
  match(await python("input()"), /EOFError/);
  equal(
    await python(`x = ${JSON.stringify("y".repeat(300_000))}\nprint(len(x))`),
    "300000",
    "code of any length",
  );
}

async function checkPythonTests(tools: Tools): Promise<void> {
  const test = (right: number) =>
    "import unittest\nfrom calc import add\n" +
    `class TestAdd(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(add(2, 3), ${right})\n`;
  await tools.write("calc.py", "def add(a, b):\n    return a + b\n");
  await tools.write("tests/test_calc.py", test(5));
  await tools.write("test_other.py", test(6));
  const passed = await tools.call("run_tests");
  match(passed, /\nRan 1 test[^]*\nOK$|1 failed, 1 passed/, "unittest begins in tests/, pytest has all");
  match(await tools.call("run_tests", { path: "tests" }), /\nOK$|1 passed/);
  const failed = await tools.call("run_tests", { path: "test_other.py" });
  match(failed, /5 != 6[^]*\[exit status 1\]$/);
  equal(await tools.call("run_tests", { path: "none" }), "error: no such file or directory");
  await tools.write("pytest.py", "import sys\nprint('pytest with', sys.argv[1:])\n");
  const args = "'-q', '--color=no', '-p', 'no:cacheprovider'";
  equal(await tools.call("run_tests"), `pytest with [${args}]`);
  equal(await tools.call("run_tests", { path: "tests" }), `pytest with [${args}, './tests']`);
}

async function checkTypescript(tools: Tools): Promise<void> {
  const run = (code: string) => tools.call("typescript", { code });
  equal(await run("const n: number = 6 * 7;\nconsole.log(n);"), "42");
  await tools.write("calc.ts", "export const add = (a: number, b: number) => a + b;\n");
  equal(await run('import { add } from "./calc.ts";\nconsole.log(add(2, 3));'), "5");
  match(
    await run('console.log("before");\nthrow new Error("wrong");'),
    /^before\n\[stderr\]\nError: wrong\n.*code\.ts:2:7/,
  );
  match(await run("const a = ;"), /code\.ts:1:11[^]*\[exit status 1\]$/);
  equal(await run('Deno.writeTextFileSync("out.txt", "written")'), "[no output]");
  equal(await tools.call("list_dir"), "calc.ts\nout.txt", "the code's file is gone");
  const refused = [
    'Deno.readTextFileSync("/etc/hostname")',
    'Deno.writeTextFileSync("../escape.txt", "")',
    'await fetch("http://127.0.0.1:4321")',
    'new Deno.Command("true").outputSync()',
    "Deno.env.get('HOME')",
    "Deno.hostname()",
    'Deno.dlopen("libc.so.6", {})',
    'Deno.symlinkSync("/etc", "link")',
    'import x from "/etc/../etc/none.json" with { type: "json" }; console.log(x);',
    'const x = await import("../outside.ts"); console.log(x);',
  ];
  for (const code of refused) {
    match(await run(code), /NotCapable|Requires (read|write|net|env|run|sys|ffi|import) access/, code);
  }
  match(await run('import "https://example.com/a.ts";'), /error|Error/);
  const heap =
    'import { getHeapStatistics } from "node:v8"; console.log(getHeapStatistics().heap_size_limit);';
  const young_mb = Number(await run(heap)) / 2 ** 20 - MAX_HEAP_MB;
  ok(young_mb >= 0 && young_mb < 100, `${young_mb}`);
  for (
    const code of ["for (;;);", 'Deno.addSignalListener("SIGTERM", () => {}); await new Promise(() => {});']
  ) {
    equal(await tools.callToLimit("typescript", { code }), "[ended: it ran past the time limit]");
  }
}

async function checkTypescriptTests(tools: Tools): Promise<void> {
  const test = (right: string) =>
    'import { add } from "calc";\n' +
    `Deno.test("adds", () => { if (add(2, 3) !== ${right}) throw new Error("wrong sum"); });\n`;
  await tools.write("deno.json", '{ "imports": { "calc": "./calc.ts" } }');
  await tools.write("calc.ts", "export const add = (a: number, b: number) => a + b;\n");
  await tools.write("tests/calc_test.ts", test("5"));
  match(await tools.call("run_tests"), /adds \.\.\. ok[^]*ok \| 1 passed \| 0 failed/);
  await tools.write("wrong_test.ts", test("6"));
  const failed = await tools.call("run_tests", { path: "wrong_test.ts" });
  match(failed, /wrong sum[^]*\[exit status 1\]$/);
  await tools.write("wrong_test.ts", test('"5"'));
  match(await tools.call("run_tests", { path: "wrong_test.ts" }), /TS2367[^]*\[exit status 1\]$/);
}

const OWN = {
  version: 3,
  tools: [
    "read_file",
    ...["cat", "fail", "absent"].map((name) => ({
      name,
      description: `${name}.`,
      parameters: { type: "object", properties: { n: { type: "integer", minimum: 1 } }, required: ["n"] },
      command: { cat: ["cat"], fail: ["sh", "-c", "cat; echo no >&2; exit 4"] }[name] ?? ["./absent"],
    })),
    { name: "sleep", description: "", parameters: { type: "object" }, command: ["sleep", "1000"] },
  ],
};

async function checkOwn(tools: Tools): Promise<void> {
  equal(tools.toolset.version, "3");
  equal(await tools.call("cat", { n: 2, more: "ä" }), '{"n":2,"more":"ä"}');
  equal(await tools.call("fail", { n: 1 }), "error: no");
  equal(await tools.call("absent", { n: 1 }), "error: Cannot run ./absent: no such program");
  equal(await tools.callToLimit("sleep", {}), "error: the tool ran past the time limit");
  equal(await tools.call("read_file", { path: "none" }), "error: no such file");
  const check = (args: unknown) => checkCall(tools.toolset.tools, { name: "cat", arguments: args });
  equal(check({ n: 0 }), "error: bad arguments at /n");
  equal(check({}), "error: bad arguments");
}
