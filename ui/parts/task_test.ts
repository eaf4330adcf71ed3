import assert from "node:assert/strict";
import { checksOf } from "./task.ts";

Deno.test("a scenario's commands, reward, protected files and rubric are what an attempt is checked by", () => {
  const verify = {
    command: ["sh", "-c", "grep 'a' out.txt"],
    reward_on_success: 2,
    protect: ["*.py", "b c"],
  };
  const metadata = {
    env: { verify, summary: ["cat", "out.txt"], files: {} },
    rubric: "Is it short?",
    other: 1,
  };
  assert.deepEqual(checksOf({ metadata }), [
    ["Verify command", "sh -c\ngrep 'a' out.txt"],
    ["Reward on success", "2"],
    ["Protected files", "*.py\nb c"],
    ["Summary command, for a judge", "cat out.txt"],
    ["Rubric", "Is it short?"],
  ]);
});

Deno.test("a scenario may say nothing about its grade, or say it in a form of its own", () => {
  assert.deepEqual(checksOf({ metadata: {} }), []);
  assert.deepEqual(checksOf({ metadata: { env: null, rubric: null } }), []);
  assert.deepEqual(checksOf({ metadata: { env: { verify: { command: [1] } } } }), [[
    "Verify command",
    "[1]",
  ]]);
});
