import assert from "node:assert/strict";
import { commandReference } from "./generate_command_reference.ts";

Deno.test("the page has every command with its arguments", () => {
  const page = commandReference();
  for (
    const name of [
      "train",
      "eval",
      "plan",
      "tools list",
      "inspect",
      "doctor",
      "init",
      "config schema",
      "server",
    ]
  ) {
    assert.ok(page.includes(`## svc ${name}\n`), name);
  }
  assert.ok(page.includes("| `--fork <checkpoint>` | start with the state of a checkpoint |"));
  assert.ok(page.includes("\n    svc train [options] <config> [key=value...]\n"));
  assert.ok(page.includes("\n    svc config schema\n"));
  assert.ok(page.includes('run: agent_grpo or sft or preference (default "agent_grpo") |'));
  assert.ok(page.includes('| `file` | where (default "run.toml") |'));
});
