import { deepEqual, equal } from "node:assert/strict";
import { scenarioWith } from "./environment_contract.ts";
import {
  DEFAULT_PROTECT,
  isAdded,
  matchesGlob,
  protectGlobs,
  protectionGap,
  protectionOf,
} from "./protect_globs.ts";

Deno.test("globs match names anywhere, and complete paths", () => {
  const cases: [string, string, boolean][] = [
    ["test_*", "test_a.py", true],
    ["test_*", "deep/er/test_a.py", true],
    ["test_*", "mytest_a", false],
    ["*_test.*", "a_test.ts", true],
    ["*_test.*", "a_test", false],
    ["tests/**", "tests/a", true],
    ["tests/**", "tests/a/b", true],
    ["tests/**", "x/tests/a", false],
    ["**/tests/**", "x/tests/a", true],
    ["**/tests/**", "tests/a", true],
    ["src/*.ts", "src/a.ts", true],
    ["src/*.ts", "src/a/b.ts", false],
    ["a?c", "abc", true],
    ["a?c", "ac", false],
    ["[ab].txt", "b.txt", true],
    ["[!ab].txt", "b.txt", false],
    ["a\\*b", "a*b", true],
    ["a\\*b", "axb", false],
    ["a.b", "aXb", false],
    ["[", "[", true],
    ["/a.txt", "a.txt", true],
    ["/a.txt", "x/a.txt", false],
    ["é*", "éa\nb", true],
  ];
  for (const [glob, path, expected] of cases) equal(matchesGlob(glob, path), expected, `${glob} on ${path}`);
});

Deno.test("by default the files that the verify command names and the tests are protected", () => {
  const verify = { command: ["sh", "-c", "python check[1].py | cmp - data/a.txt"] };
  const files = { "check[1].py": "", "data/a.txt": "", "b.txt": "" };
  const scenario = scenarioWith({ files, verify });
  deepEqual(protectGlobs(scenario, undefined), ["/check\\[1].py", "/data/a.txt", ...DEFAULT_PROTECT]);
  equal(matchesGlob("check\\[1].py", "check[1].py"), true);
  deepEqual(protectGlobs(scenario, ["b.*"]), ["b.*"]);
  deepEqual(protectGlobs(scenarioWith({ files, verify: { ...verify, protect: [] } }), ["b.*"]), []);
  deepEqual(protectGlobs(scenarioWith({ files }), undefined), []);
});

Deno.test("a verify command names complete paths, from the root", () => {
  const protects = (path: string, ...command: string[]) => {
    const scenario = scenarioWith({ files: { [path]: "" }, verify: { command } });
    return protectGlobs(scenario, undefined).length > DEFAULT_PROTECT.length;
  };
  for (
    const line of [
      "cat a.txt",
      "cmp ./a.txt b",
      "test -s 'a.txt'",
      "a.txt",
      "cat<a.txt>b",
      "x=a.txt; cat $x",
      'open("a.txt")',
      "see a.txt.",
      "cat $PWD/a.txt ",
      "cat /work/a.txt",
      "cat b/../a.txt",
      "cat ./b/c/../../a.txt",
      "cat .//./a.txt",
      "cat data.txt a.txt",
    ]
  ) equal(protects("a.txt", "sh", "-c", line), true, line);
  for (
    const line of [
      "cat data.txt",
      "cat x/a.txt",
      "cat a.txt2",
      "cat a.txt/b",
      "cat -a.txt",
      "cat ../a.txt",
      "cat ~/a.txt",
      "cat b/a.txt/../c",
      "cat a.txt.bak",
      "cat éa.txt",
    ]
  ) {
    equal(protects("a.txt", "sh", "-c", line), false, line);
  }
  equal(protects("x/a.txt", "cat", "x/a.txt"), true);
  equal(protects("a.txt", "cat", "x", "/a.txt"), false);
  const globs = protectGlobs(
    scenarioWith({ files: { "a.txt": "", "x/a.txt": "" }, verify: { command: ["cat", "a.txt"] } }),
    undefined,
  );
  equal(globs.some((glob) => matchesGlob(glob, "x/a.txt")), false);
});

/** The globs besides the default ones. */
function named(files: readonly string[], ...command: string[]): string[] {
  const scenario = scenarioWith({
    files: Object.fromEntries(files.map((path) => [path, ""])),
    verify: { command },
  });
  const globs = protectGlobs(scenario, undefined);
  deepEqual(globs.slice(-DEFAULT_PROTECT.length), [...DEFAULT_PROTECT]);
  return globs.slice(0, -DEFAULT_PROTECT.length);
}

Deno.test("a verify command that names a folder protects all that lies below", () => {
  const files = ["ci/a.py", "ci/deep/b.py", "Tests/Test_a.py", "src/x.py"];
  const shell = (line: string) => named(files, "sh", "-c", line);
  deepEqual(shell("D=ci; python3 $D/a.py"), ["/ci/**"]);
  deepEqual(shell("for f in ci/deep/*.py; do python3 $f; done"), ["/ci/deep/**"]);
  deepEqual(shell("ls ./ci/ >/dev/null"), ["/ci/**"]);
  deepEqual(named(files, "diff", "-r", "ci", "out"), ["/ci/**"]);
  deepEqual(named(files, "deno", "test", "Tests"), ["/Tests/**"]);
  deepEqual(shell("cat ci/none"), []);
  deepEqual(shell("cat ci2 xci ci.bak"), []);
});

Deno.test("a verify command that changes into a folder names what lies there from there", () => {
  const files = ["checks/check.sh", "checks/deep/b.sh", "check.txt", "app/main.py"];
  const shell = (line: string) => named(files, "sh", "-c", line);
  deepEqual(shell("cd checks && sh check.sh"), ["/checks/check.sh"]);
  deepEqual(shell("cd './checks/deep'; sh b.sh"), ["/checks/deep/b.sh"]);
  deepEqual(shell("cd checks; cd deep; sh ./b.sh ../check.sh"), ["/checks/check.sh", "/checks/deep/b.sh"]);
  deepEqual(shell("(cd $PWD/checks && cat ../check.txt)"), ["/check.txt"]);
  // Where a command runs is not what it relies on: the task may be to change that.
  deepEqual(shell("cd app && make"), []);
  deepEqual(shell("echo abcd checks"), ["/checks/**"]);
});

Deno.test("a module that the verify command runs is protected with all that Python could take for it", () => {
  const protects = (path: string, ...command: string[]) =>
    named([], ...command).some((glob) => matchesGlob(glob, path));
  const forms = [
    "verifier.py",
    "verifier.pyc",
    "verifier.so",
    "verifier.cpython-313-x.so",
    "verifier/x/y.py",
  ];
  for (const path of forms) {
    equal(protects(path, "python3", "-m", "verifier"), true, path);
    equal(protects(path, "sh", "-c", "true; python3.13 -Im verifier || exit 1"), true, path);
    equal(protects(`a/${path}`, "sh", "-c", "cd a && python3 -m verifier"), true, path);
    equal(protects(path, "python3", "-m", "unittest", "-q", "verifier"), true, path);
    equal(protects(path, "sh", "-c", "git commit -m verifier"), false, path);
    equal(protects(path, "python3", "run.py", "verifier"), false, path);
  }
  equal(protects("unittest.py", "python3", "-m", "unittest", "discover"), true);
  equal(protects("a/b.py", "python3", "-m", "a.b"), true);
  equal(protects("a/__init__.py", "python3", "-m", "a.b"), true);
  equal(protects("a/other.py", "python3", "-m", "a.b"), false);
});

Deno.test("a file that only the verify command knows has to come from the attempt", () => {
  const command = ["sh", "-c", "python3 tests/test_made.py"];
  const made = protectionOf(scenarioWith({ verify: { command } }), undefined);
  deepEqual(["tests/test_made.py", "tests/other.py"].map((path) => isAdded(made, path)), [false, true]);
  // Globs of the scenario or the operator mean what they say.
  for (
    const own of [
      protectionOf(scenarioWith({ verify: { command, protect: ["tests/**"] } }), undefined),
      protectionOf(scenarioWith({ verify: { command } }), ["tests/**"]),
    ]
  ) equal(isAdded(own, "tests/test_made.py"), true);
});

Deno.test("a verification that may rely on unprotected files has a gap", () => {
  const gap = (
    paths: readonly string[],
    command: string[],
    { setup = [], ...more }: { setup?: string[]; protect?: string[] } = {},
  ) => {
    const files = Object.fromEntries(paths.map((path) => [path, ""]));
    return protectionGap(scenarioWith({ files, setup, verify: { command, ...more } }), undefined);
  };
  const nothing = "its verify command names no file, and no protected glob matches one";
  equal(gap(["Makefile", "a.c"], ["make", "check"]), nothing);
  equal(gap(["run.spec"], ["python3", "-m", "pytest"]), nothing);
  // A part of a name would be guessed; these are whole names.
  const odd = (name: string) => `its verify command has "${name}" in a form that names no file`;
  equal(gap(["ci/Check.py"], ["sh", "-c", "D=c; python3 ${D}i/check.py"]), odd("Check.py"));
  equal(gap(["checks/a.sh"], ["sh", "-c", "cd checks && for f in *.sh; do sh $f; done"]), odd("checks"));
  const own = "its metadata.env.verify.protect matches no file of files";
  equal(gap(["a.py"], ["python3", "a.py"], { protect: ["test/**"] }), own);
  equal(gap(["a.py"], ["python3", "a.py"], { protect: ["test/**"], setup: ["mkdir test"] }), null);
  // The name of a file that was to be found is a value.
  equal(gap(["docs/map.log"], ["sh", "-c", "test \"$(cat 'answer.txt')\" = 'map.log'"]), null);
  equal(gap(["ci/check.sh"], ["sh", "-c", "F=check.sh; sh c*/$F"]), odd("check.sh"));
  // Nothing to protect, or all of it is.
  equal(gap(["numbers.txt"], ["sh", "-c", 'test "$(cat sum.txt)" = 42']), null);
  equal(gap(["numbers.txt"], ["grep", "-q", "42", "sum.txt"]), null);
  equal(gap(["Makefile"], ["make", "check"], { protect: [] }), null);
  equal(gap(["Makefile"], ["make", "check"], { setup: ["touch x"] }), null);
  equal(gap(["check.py", "a.c"], ["python3", "check.py"]), null);
  equal(gap(["tests/a.py"], ["python3", "-m", "pytest"]), null);
  equal(gap([], ["make"]), null);
  const configured = scenarioWith({ files: { Makefile: "" }, verify: { command: ["make"] } });
  deepEqual([["Make*"], ["x"]].map((globs) => protectionGap(configured, globs)), [null, nothing]);
});
