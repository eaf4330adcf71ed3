import assert from "node:assert/strict";
import { departureOf } from "./killed_client.ts";

/** Commands as they were sent; those with a question mark had no answer. */
const sent = (text: string) =>
  text.split(" ").map((command) => ({
    command: command.replace("?", ""),
    is_accepted: !command.endsWith("?"),
  }));
const log = (text: string) => text === "" ? [] : text.split(" ");

Deno.test("a log has what was accepted, once and in order, and may have what had no answer", () => {
  for (
    const [commands, logged] of [
      ["a b", "a b"],
      ["a b?", "a"],
      ["a b?", "a b"],
      ["a? a", "a"],
      ["a? a b", "a a b"],
      ["a? b?", ""],
    ] as const
  ) assert.equal(departureOf(sent(commands), log(logged)), null, `${commands}: ${logged}`);
});

Deno.test("a log that lost, doubled, invented or swapped a command is not what was accepted", () => {
  for (
    const [commands, logged] of [
      ["a b", "a"],
      ["a b", "b"],
      ["a b", "b a"],
      ["a", "a a"],
      ["a?", "a a"],
      ["a", "a c"],
      ["a? a", ""],
      ["a", ""],
    ] as const
  ) assert.notEqual(departureOf(sent(commands), log(logged)), null, `${commands}: ${logged}`);
});

Deno.test("a departure is told with the commands around it", () => {
  const commands = Array.from({ length: 100 }, (_, i) => `c${i}`), lost = commands.toSpliced(50, 1);
  const told = departureOf(sent(commands.join(" ")), lost)!;
  assert.match(told, /^command 50 of c40, .*, c59: the log has c40, .*, c49, c51, /);
});
