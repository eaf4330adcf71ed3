// A reward program for examples/tiny_agent_reward.toml: reads a JSON line for each attempt from standard input, and writes
// a JSON line with its reward to standard output. Anything for people belongs on standard error.

import { createInterface } from "node:readline";

for await (const line of createInterface({ input: process.stdin })) {
  const { id, scenario, messages, state } = JSON.parse(line);
  const { expected } = scenario.metadata;
  const calls = messages.flatMap(({ tool_calls }) => tool_calls ?? []);
  const right = state === expected ? 1 : commonPrefix(state ?? "", expected) / expected.length / 2;
  // Half of the reward is for the complete text, and every call costs a little.
  const reward = right - 0.01 * calls.length;
  const explanation = `the file has ${JSON.stringify(state)} after ${calls.length} calls`;
  console.log(JSON.stringify({ id, reward, explanation }));
}

/** The number of characters with which both texts begin. */
function commonPrefix(a, b) {
  let length = 0;
  while (length < Math.min(a.length, b.length) && a[length] === b[length]) length++;
  return length;
}
