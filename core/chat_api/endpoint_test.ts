import assert from "node:assert/strict";
import { chatCompletionsUrl, endpointHost, readKey } from "./endpoint.ts";
import { redactedHead, redactorOf } from "./redact.ts";

const ABOUT = { what: "the judge", setting: "agent.judge.api_key_env" };
const VARIABLE = "SVC_TEST_CHAT_KEY";

Deno.test("the prefix and the query of an address stay", () => {
  const cases: [string, string][] = [
    ["https://api.example/v1", "https://api.example/v1/chat/completions"],
    ["https://api.example/v1/", "https://api.example/v1/chat/completions"],
    ["http://127.0.0.1:8000", "http://127.0.0.1:8000/chat/completions"],
    ["https://x.example/d/gpt?api-version=1#no", "https://x.example/d/gpt/chat/completions?api-version=1"],
  ];
  for (const [base, url] of cases) assert.equal(chatCompletionsUrl(base).href, url);
});

Deno.test("a permission names the host and the port", () => {
  const cases: [string, string][] = [
    ["https://api.example/v1", "api.example:443"],
    ["http://api.example", "api.example:80"],
    ["http://[::1]:8000/v1", "[::1]:8000"],
  ];
  for (const [base, host] of cases) assert.equal(endpointHost(base), host);
});

Deno.test("a key that is missing or cannot be sent is refused by its variable's name", () => {
  const cases: [string | null, RegExp][] = [
    [
      null,
      /^Cannot ask the judge: the environment variable SVC_TEST_CHAT_KEY is not set; set it to the key, or leave/,
    ],
    ["  ", /SVC_TEST_CHAT_KEY is empty;/],
    ["sk-a\nb", /SVC_TEST_CHAT_KEY has characters that no header can carry;/],
    ["sk-schlüssel", /SVC_TEST_CHAT_KEY has characters that no header can carry;/],
  ];
  try {
    for (const [value, message] of cases) {
      if (value === null) Deno.env.delete(VARIABLE);
      else Deno.env.set(VARIABLE, value);
      assert.throws(() => readKey(VARIABLE, ABOUT), (error: Error) => {
        assert.match(error.message, message);
        return value === null || value.trim() === "" || !error.message.includes(value.trim());
      });
    }
    Deno.env.set(VARIABLE, " sk-1 \n");
    assert.equal(readKey(VARIABLE, ABOUT), "sk-1");
  } finally {
    Deno.env.delete(VARIABLE);
  }
});

Deno.test("a key and long parts of it are hidden, and placeholders are not", () => {
  const redact = redactorOf("0123456789abcdef");
  const cases: [string, string][] = [
    ["a 0123456789abcdef b", "a [key] b"],
    ["456789ab,cdef", "[key],cdef"],
    ["0123456789abcdef0123456789abcdef", "[key][key]"],
    ["x0123456", "x0123456"],
    ["0123456x789abcdef", "0123456x[key]"],
  ];
  for (const [text, hidden] of cases) assert.equal(redact(text), hidden);
  assert.equal(redactorOf("none")("none"), "none");
  assert.equal(redactorOf(null)("text"), "text");
});

Deno.test("several keys are hidden, short ones as a whole, and before a text is cut", () => {
  const redact = redactorOf(["0123456789", "abcdef", "short", "0123456789abcdefgh"]);
  const cases: [string, string][] = [
    ["0123456789 abcdef short", "[key] [key] short"],
    ["789abcdefgh", "[key]"],
    ["bcdef", "bcdef"],
  ];
  for (const [text, hidden] of cases) assert.equal(redact(text), hidden);
  assert.equal(redactedHead("the key 0123456789 and more", 12, redact), "the key [key");
  assert.equal(redactedHead("the key 0123456789", 30, redact), "the key [key]");
});
