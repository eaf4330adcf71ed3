import { deepEqual, equal } from "node:assert/strict";
import { scenarioWith } from "./environment_contract.ts";
import { DEFAULT_PROTECT, matchesGlob, protectGlobs } from "./protected_files.ts";

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
      "cat ~/./a.txt",
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
