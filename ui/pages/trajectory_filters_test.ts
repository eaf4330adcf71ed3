import assert from "node:assert/strict";
import { filterOf, queryWith } from "./trajectory_filters.ts";

Deno.test("the filters of an address are those of the search, without empty and wrong ones", () => {
  const query = new URLSearchParams(
    "text=a%20b&scenario=&stop_reason=timeout&min_reward=-0.5&max_reward=x&failure=tool&tool=write&other=1",
  );
  assert.deepEqual(filterOf(query), {
    ...{ text: "a b", stop_reason: "timeout", min_reward: -0.5, failure: "tool", tool: "write" },
  });
  assert.deepEqual(filterOf(new URLSearchParams("min_reward=0&max_reward=")), { min_reward: 0 });
});

Deno.test("a filter changes its own part of the address", () => {
  const query = new URLSearchParams("text=a&min_reward=1");
  assert.deepEqual(queryWith(query, "text", "b"), { text: "b", min_reward: "1" });
  assert.deepEqual(queryWith(query, "min_reward", " "), { text: "a" });
  assert.deepEqual(queryWith(query, "tool", "x"), { text: "a", min_reward: "1", tool: "x" });
  assert.deepEqual(filterOf(new URLSearchParams(queryWith(query, "max_reward", "2.5"))), {
    ...{ text: "a", min_reward: 1, max_reward: 2.5 },
  });
});
