import { equal, throws } from "node:assert/strict";
import { Rng, rngKey } from "../../core/random.ts";
import { STRING_FORMATS } from "./formats.ts";
import { quoted } from "./json_text.ts";
import { patternText, UnsupportedPattern } from "./pattern.ts";
import { RegexArena } from "./regex.ts";
import { matches } from "./scalars.ts";

const PATTERNS = [
  ...["", "a", "^a", "a$", "^a$", "^$", "a|b", "^(a|b)$", "^a|b$", "(^a|b)c", "a(b|c$)", "^(?:ab)*$"],
  ...["^[abc]{2,3}$", "^[^a-c]+$", "^.$", "^.{2}$", "^\\d+$", "\\w\\s", "^\\W*$", "^\\S+\\.$", "^a+?b??$"],
  ...[
    "^[\\w.-]+$",
    "^[-a]$",
    "^\\u00e9|\\x41$",
    "^\\u{1f600}$",
    "\\/",
    "^(a?b?c?){2}$",
    "[^\\n]",
    "^\\^\\$$",
  ],
  ...['^["\\\\]+$', "^(?<name>a)b$", "^[^]$", "^\\t?\\n*$", "^(?:a|(?:b|c)d)e{0}$"],
];
const ALPHABET = [
  "a",
  "b",
  "c",
  "d",
  "A",
  "0",
  "7",
  "_",
  ".",
  "-",
  " ",
  "\n",
  "\t",
  '"',
  "\\",
  "/",
  "^",
  "$",
  "é",
  "\u{1f600}",
];

Deno.test("a pattern matches the strings that RegExp matches, as JSON.stringify writes them", () => {
  const rng = new Rng(rngKey(7, "patterns"));
  for (const pattern of PATTERNS) {
    const arena = new RegexArena(), expected = new RegExp(pattern, "u");
    const text = quoted(arena, patternText(arena, pattern));
    for (let i = 0; i < 400; i++) {
      const length = i < ALPHABET.length ? 1 : rng.below(6);
      const string = Array.from(
        { length },
        () => ALPHABET[i < ALPHABET.length ? i : rng.below(ALPHABET.length)],
      ).join("");
      equal(
        matches(arena, text, JSON.stringify(string)),
        expected.test(string),
        `${pattern} on ${JSON.stringify(string)}`,
      );
    }
  }
});

Deno.test("a pattern that no automaton follows, or that is wrong, is refused", () => {
  const arena = new RegexArena();
  const refused: [string, RegExp][] = [
    ["(?=a)b", /look-around/],
    ["(?<!a)b", /look-around/],
    ["(a)\\1", /escape \\1/],
    ["\\bword", /escape \\b/],
    ["\\p{L}", /escape \\p/],
    ["a(^b|c)", /ends of a pattern/],
    ["(", /not closed/],
    [")", /closes no group/],
    ["[a", /not closed/],
    ["[b-a]", /out of order/],
    ["a{3,2}", /out of order/],
    ["*a", /nothing to repeat/],
    ["a**", /repeated without a group/],
    ["\\", /ends with a backslash/],
    ["\\ud800", /no character/],
    ["(".repeat(51) + ")".repeat(51), /nested/],
    ["a".repeat(5000), /above 4096/],
  ];
  for (const [pattern, reason] of refused) {
    throws(
      () => patternText(arena, pattern),
      (error) => error instanceof UnsupportedPattern && reason.test(error.message),
      pattern,
    );
  }
});

Deno.test("formats admit examples of the standards and nothing that they forbid", () => {
  const examples: Record<string, { valid: string[]; invalid: string[] }> = {
    "date": {
      valid: ["2024-02-29", "2000-02-29", "1999-12-31"],
      invalid: ["2023-02-29", "1900-02-29", "2024-04-31", "2024-1-01"],
    },
    "time": { valid: ["23:59:59Z", "00:00:00.5+01:00"], invalid: ["24:00:00Z", "12:00:00", "12:60:00Z"] },
    "date-time": { valid: ["2024-05-06T07:08:09Z"], invalid: ["2024-05-06 07:08:09Z", "2024-05-06T07:08Z"] },
    "duration": { valid: ["P1Y2M3DT4H", "PT5M", "P4W"], invalid: ["P", "PT", "P1D2Y", "1D"] },
    "ipv4": { valid: ["0.0.0.0", "255.255.255.255"], invalid: ["256.0.0.1", "1.2.3", "01.2.3.4"] },
    "ipv6": {
      valid: ["::", "::1", "1::", "fe80::1:2", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7::"],
      invalid: [":", "1:2:3", "1::2::3", "1:2:3:4:5:6:7:8:9", ":::"],
    },
    "uuid": {
      valid: ["123e4567-e89b-12d3-a456-426614174000"],
      invalid: ["123e4567e89b12d3a456426614174000"],
    },
    "email": { valid: ["a.b+c@example.com"], invalid: ["a@", "@b.c", "a b@c.d", ".a@b.c"] },
    "hostname": { valid: ["example.com", "a"], invalid: ["-a", "a-", "a..b", ""] },
    "uri": {
      valid: ["https://example.com/a?b=c#d", "mailto:a@b.c", "urn:x:y"],
      invalid: ["/a", "a b:c", "://x"],
    },
    "uri-reference": { valid: ["/a/b", "https://a.b"], invalid: ["a b", "\\\\x"] },
    "json-pointer": { valid: ["", "/a~0b/~1", "/"], invalid: ["a", "/~2", "/~"] },
    "relative-json-pointer": { valid: ["0", "1/a", "2#"], invalid: ["/a", "01", "-1"] },
  };
  const arena = new RegexArena();
  for (const [format, { valid, invalid }] of Object.entries(examples)) {
    const text = quoted(arena, patternText(arena, STRING_FORMATS[format]!));
    for (const string of valid) {
      equal(matches(arena, text, JSON.stringify(string)), true, `${format}: ${string}`);
    }
    for (const string of invalid) {
      equal(matches(arena, text, JSON.stringify(string)), false, `${format}: ${string}`);
    }
  }
});
