import assert from "node:assert/strict";
import { transcriptOf } from "./transcript.ts";

Deno.test("an attempt is a text with a heading for each message", () => {
  const call = {
    id: "c",
    type: "function" as const,
    function: { name: "read_file", arguments: { path: "a.txt" } },
  };
  const text = transcriptOf({
    messages: [
      { role: "user", content: "Read a.txt." },
      { role: "assistant", content: "", reasoning_content: "hm", tool_calls: [call] },
      { role: "tool", content: "hello", tool_call_id: "c" },
      { role: "assistant", content: "It says hello." },
    ],
  });
  assert.equal(
    text,
    '## user\nRead a.txt.\n\n## assistant\n(thinking) hm\nread_file({"path":"a.txt"})\n\n## tool\nhello\n\n' +
      "## assistant\nIt says hello.",
  );
  assert.equal(transcriptOf({ messages: null }), "");
});
