import { deepEqual, equal } from "node:assert/strict";
import { scenarioWith } from "./environment_contract.ts";
import { DEFAULT_PROTECT, matchesGlob, protectGlobs } from "./protected_files.ts";

Deno.test("globs match names anywhere and paths as a whole", () => {
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
    ["é*", "éa\nb", true],
  ];
  for (const [glob, path, expected] of cases) equal(matchesGlob(glob, path), expected, `${glob} on ${path}`);
});

Deno.test("by default the files that the verify command names and the tests are protected", () => {
  const verify = { command: ["sh", "-c", "python check[1].py | cmp - data/a.txt"] };
  const files = { "check[1].py": "", "data/a.txt": "", "b.txt": "" };
  const scenario = scenarioWith({ files, verify });
  deepEqual(protectGlobs(scenario, undefined), ["check\\[1].py", "data/a.txt", ...DEFAULT_PROTECT]);
  equal(matchesGlob("check\\[1].py", "check[1].py"), true);
  deepEqual(protectGlobs(scenario, ["b.*"]), ["b.*"]);
  deepEqual(protectGlobs(scenarioWith({ files, verify: { ...verify, protect: [] } }), ["b.*"]), []);
  deepEqual(protectGlobs(scenarioWith({ files }), undefined), []);
});
