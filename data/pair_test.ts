import { deepEqual, equal, throws } from "node:assert/strict";
import { ServiceError } from "../core/errors.ts";
import { parsePair } from "./pair.ts";

const parse = (row: unknown) => parsePair("p.jsonl", { line: 7, text: JSON.stringify(row) });
const user = { role: "user", content: "hi" };
const yes = { role: "assistant", content: "yes" }, no = { role: "assistant", content: "no" };

function refused(row: unknown, reason: RegExp): void {
  throws(() => parse(row), (error: unknown) => {
    if (!(error instanceof ServiceError)) throw error;
    equal(error.code, "data_invalid");
    deepEqual([error.details.path, error.details.line], ["p.jsonl", 7]);
    return error.message.startsWith("Cannot read p.jsonl:7: ") && reason.test(error.message);
  });
}

Deno.test("a pair is three texts or three lists of messages, with tools", () => {
  const texts = { prompt: "a", chosen: "b", rejected: "c" };
  deepEqual(parse(texts), { content: texts, tools: [] });
  const chats = { prompt: [user], chosen: [yes], rejected: [no] };
  deepEqual(parse(chats).content, chats);
  const [tool] =
    parse({ ...chats, tools: JSON.stringify([{ name: "f", inputSchema: { type: "object" } }]) }).tools;
  deepEqual(tool, { type: "function", function: { name: "f", parameters: { type: "object" } } });
});

Deno.test("without a prompt, the common start of both completions is the prompt", () => {
  deepEqual(parse({ chosen: [user, yes], rejected: [user, no, user, yes] }).content, {
    prompt: [user],
    chosen: [yes],
    rejected: [no, user, yes],
  });
  deepEqual(parse({ prompt: null, chosen: [user, yes], rejected: [user, no] }).content.chosen, [yes]);
});

Deno.test("an invalid pair is refused with its line and field", () => {
  refused({ prompt: "a", chosen: "b" }, /rejected: is missing/);
  refused({ prompt: "a", chosen: [yes], rejected: [no] }, /chosen: must be a string/);
  refused({ prompt: [user], chosen: [], rejected: [no] }, /chosen/);
  refused({ prompt: [user], chosen: [{ role: "robot" }], rejected: [no] }, /chosen\.0\.role/);
  refused({ prompt: [user], chosen: [yes], rejected: [no], tools: [{}] }, /tools\.0/);
  refused({ chosen: [user, yes], rejected: [user] }, /rejected: has nothing after the prompt$/);
  refused({ prompt: "a", chosen: "", rejected: "c" }, /chosen: has nothing after the prompt$/);
  refused([1], /not a JSON object/);
});
