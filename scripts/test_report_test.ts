import assert from "node:assert/strict";
import { dealFiles, joinFiles, partOf } from "./ok.ts";
import { addCounts, countTests, failureReport, summaryLine, withoutReason } from "./test_report.ts";

const JUNIT = `<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="deno test" tests="5" failures="2" errors="0" time="0.065">
    <testsuite name="./a_test.ts" tests="5" disabled="1" errors="0" failures="2">
        <testcase name="says &quot;&lt;skipped/&gt;&quot;" classname="./a_test.ts" time="0.000" line="1" col="6">
        </testcase>
        <testcase name="a &amp; b (skipped: no podman)" classname="./a_test.ts" time="0.000" line="2" col="6">
            <skipped/>
        </testcase>
        <testcase name="fails" classname="./a_test.ts" time="0.002" line="3" col="6">
            <failure message="1 test step failed">1 test step failed.</failure>
        </testcase>
        <testcase name="fails &gt; inner ok" classname="./a_test.ts" time="0.000" line="3" col="43">
        </testcase>
        <testcase name="fails &gt; inner bad" classname="./a_test.ts" time="0.000" line="3" col="79">
            <failure message="Error: x
 &lt;skipped/&gt;">Error: &lt;skipped/&gt;</failure>
        </testcase>
    </testsuite>
</testsuites>
`;

Deno.test("a JUnit file of Deno is counted case by case", () => {
  const counts = countTests(JUNIT);
  const failed = [{ name: "fails", message: "1 test step failed." }, {
    name: "fails > inner bad",
    message: "Error: <skipped/>",
  }];
  assert.deepEqual(counts, { passed: 2, failed, skipped: ["a & b (skipped: no podman)"] });
  assert.equal(summaryLine(counts), "2 passed, 2 failed, 1 skipped");
  assert.equal(summaryLine(addCounts(counts, counts)), "4 passed, 4 failed, 2 skipped");
  assert.deepEqual(countTests(""), { passed: 0, failed: [], skipped: [] });
});

Deno.test("the report of failures names each test, with the beginning of its message", () => {
  const long = Array.from({ length: 33 }, (_, i) => `line ${i + 1}`).join("\n\n");
  const lines = failureReport([{ name: "a", message: "Error: x\n    at y.ts:3\n" }, {
    name: "b",
    message: long,
  }])
    .split("\n");
  assert.deepEqual(lines.slice(0, 6), [
    "FAILED a",
    "    Error: x",
    "        at y.ts:3",
    "",
    "FAILED b",
    "    line 1",
  ]);
  assert.deepEqual(lines.slice(34), ["    line 30", "    (3 more lines)"]);
});

Deno.test("a skipped test says why", () => {
  assert.deepEqual(withoutReason(["a (skipped: no podman)", "b", "c (skipped: )", "d (skipped)"]), [
    "b",
    "c (skipped: )",
    "d (skipped)",
  ]);
});

Deno.test("every room's tests belong to one part", () => {
  assert.equal(partOf("scripts/tidy_test.ts"), "gate");
  assert.equal(partOf("core/ids_test.ts"), "kernels and trainer");
  assert.equal(partOf("tests/golden/logits_test.ts"), "kernels and trainer");
  assert.equal(partOf("tests/kill_resume_test.ts"), "kernels and trainer");
  assert.equal(partOf("tests/resume_test.ts"), "service");
  assert.equal(partOf("agent/rollout/group_test.ts"), "worlds");
  assert.equal(partOf("runs/process/resume_test.ts"), "worlds");
  assert.equal(partOf("runs/fleet/fleet_test.ts"), "service");
  assert.throws(() => partOf("attic/a_test.ts"), /belongs to no part/);
});

Deno.test("each file is dealt to one process, and neighbours to different ones", () => {
  const files = ["a/1", "a/2", "a/3", "b/1", "b/2"];
  assert.deepEqual(dealFiles(files, 2), [["a/1", "a/3", "b/2"], ["a/2", "b/1"]]);
  assert.deepEqual(dealFiles(files, 1), [files]);
  assert.deepEqual(dealFiles(files, 2, ["b/"]), [["b/1"], ["b/2"], ["a/1", "a/3"], ["a/2"]]);
});

Deno.test("joined files are loaded one after the other, whatever is in their paths", () => {
  assert.equal(
    joinFiles(["/a b/x_test.ts", '/a/"y"_test.ts']),
    'await import("file:///a%20b/x_test.ts");\nawait import("file:///a/%22y%22_test.ts");\n',
  );
});
