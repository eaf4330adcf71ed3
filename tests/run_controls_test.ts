import assert from "node:assert/strict";
import { ACCEPTED } from "../runs/record/run.ts";
import { OFFERED } from "../ui/pages/run_commands.ts";

Deno.test("the page of a run offers each command in the states in which the server accepts it", () => {
  const sorted = (states: readonly string[]) => [...states].sort();
  const accepted = Object.entries(ACCEPTED).map((
    [command, states],
  ) => [command, sorted(Object.keys(states))]);
  const offered = Object.entries(OFFERED).map(([command, states]) => [command, sorted(states)]);
  assert.deepEqual(Object.fromEntries(offered), Object.fromEntries(accepted));
});
