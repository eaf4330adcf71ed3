/**
 * Bodies that are small to send and expensive, or ambiguous, to read: as the body of a plan each is refused with the
 * status and the places of its problems.
 */

export interface Bomb {
  name: string;
  type: "application/json" | "application/toml";
  body: string | Uint8Array<ArrayBuffer>;
  status: 413 | 422;
  /** Problems that the answer must list, as `pointer code`; all of them unless it ends with `…`. */
  errors: string;
  /** What the first message says. */
  message?: RegExp;
}

const WHOLE_BODY = " invalid_value";

const json = (name: string, body: Bomb["body"], more: Partial<Bomb> = {}): Bomb => ({
  ...{ name: `JSON: ${name}`, type: "application/json", body, status: 422, errors: WHOLE_BODY },
  ...more,
});

const keys = (count: number) => `{${Array.from({ length: count }, (_, i) => `"${i}":0`).join(",")}}`;
const recipe = (more: string) => `{"recipe":"sft","model":"/m","data":"/d",${more}}`;
const TOO_LARGE = { status: 413, errors: " out_of_range" } as const;
const DEEP = { message: /^nests more than 64 levels deep$/ },
  MANY = { message: /^has more than 10000 values$/ };
const LONG_NAME = { message: /^has a field name of more than 1024 characters$/ };
const LOSES_DIGITS = { message: /would lose digits/ };

/** Every JSON bomb. The bodies are made when they are asked for: some have megabytes. */
export function jsonBombs(): Bomb[] {
  return [
    json("65 levels", `{"a":${"[".repeat(64)}${"]".repeat(64)}}`, DEEP),
    json("100,000 levels", "[".repeat(1e5), DEEP),
    json("5,000,000 levels", "[".repeat(5e6), DEEP),
    json("5,000,000 levels of objects", '{"a":'.repeat(1e6), DEEP),
    json("500,000 keys", keys(5e5), MANY),
    json("1,000,000 keys", keys(1e6), TOO_LARGE),
    json("4,000,000 items", `[${"0,".repeat(4e6 - 1)}0]`, MANY),
    json("a number of 1,000,000 digits", recipe(`"name":${"1".repeat(1e6)}`), {
      errors: "/name invalid_value",
      ...LOSES_DIGITS,
    }),
    json("a number of 8,000,000 digits", "1".repeat(8e6), LOSES_DIGITS),
    json("an exponent beyond all numbers", recipe('"budget":{"updates":1e400}'), {
      errors: "/budget/updates invalid_value",
      ...LOSES_DIGITS,
    }),
    json("a whole number above 2^53", recipe('"budget":{"updates":9007199254740993}'), {
      errors: "/budget/updates invalid_value",
      ...LOSES_DIGITS,
    }),
    json("minus zero", recipe('"budget":{"updates":-0}'), { errors: "/budget/updates out_of_range…" }),
    json("a key of 4,000,000 parts", recipe(`"params":{"${"a.".repeat(39e5)}":1}`), {
      errors: "/params invalid_value",
      ...LONG_NAME,
    }),
    json("a key of 500 parts", recipe(`"params":{"${"a.".repeat(500)}":1}`), {
      errors: `/params/${"a.".repeat(500)} unknown_field…`,
    }),
    json("a string of 10 MB", recipe(`"name":"${"x".repeat(1e7)}"`), TOO_LARGE),
    json("a string of 8 MB", recipe(`"name":"${"x".repeat(8e6)}"`), { errors: "/name invalid_value…" }),
    json("escapes of 8 MB", recipe(`"name":"${"\\u0041".repeat(13e5)}"`), { errors: "/name invalid_value…" }),
    json("escaped quotes of 8 MB", recipe(`"name":"${'\\"'.repeat(39e5)}"`), {
      errors: "/name invalid_value…",
    }),
    json("a key of 8 MB", recipe(`"${"x".repeat(8e6)}":1`), LONG_NAME),
    json(
      "300 problems below a key of 4 MB",
      recipe(`"${"x".repeat(4e6)}":{${'"a":0,'.repeat(300)}"a":0}`),
      LONG_NAME,
    ),
    json("a key of 8 MB in another", recipe(`"params":{"${"~/".repeat(4e6)}":1}`), {
      errors: "/params invalid_value",
      ...LONG_NAME,
    }),
    json("a key twice", recipe('"name":"a","name":"b"'), { errors: "/name invalid_value" }),
    json("a key twice, once escaped", recipe('"name":"a","\\u006eame":"b"'), {
      errors: "/name invalid_value",
    }),
    json("half of a surrogate pair", recipe('"name":"\\ud800"'), { errors: "/name invalid_value" }),
    json("NaN", recipe('"budget":{"updates":NaN}')),
    json("a NUL in a string", recipe('"name":"a\0b"')),
    json("an escaped NUL in a path", '{"recipe":"sft","model":"/a\\u0000","data":"/d\\u0000"}', {
      errors: "/model invalid_value…",
    }),
    json("a byte order mark before nothing", "\ufeff"),
    json("UTF-16", new Uint8Array([0xff, 0xfe, 0x7b, 0, 0x7d, 0])),
    json("spaces of 8 MB", " ".repeat(8e6)),
  ];
}

const toml = (name: string, body: string, more: Partial<Bomb> = {}): Bomb => ({
  ...{
    name: `TOML: ${name}`,
    type: "application/toml",
    body,
    status: 422,
    errors: WHOLE_BODY,
    message: /\(line \d+(, column \d+)?\)$/,
  },
  ...more,
});
const KEY = { message: /./ };

/** Every TOML bomb. */
export function tomlBombs(): Bomb[] {
  return [
    toml("100,000 brackets", `x = ${"[".repeat(1e5)}`),
    toml("20,000 tables in each other", `x = ${"{a=".repeat(2e4)}`),
    toml("a dotted key of 50,000 parts", `${Array(5e4).fill("a").join(".")} = 1`),
    toml("a header of 50,000 parts", `[${Array(5e4).fill("a").join(".")}]\nx = 1`),
    toml("1,000,000 tables in a list", "[[a]]\n".repeat(1e6)),
    toml("20,000 tables in a list", "[[a]]\n".repeat(2e4)),
    toml("a list of 60,000 items", `x = [${"1,".repeat(6e4)}]`),
    toml("a key twice", "[training]\nlr = 1\nlr = 2\n"),
    toml("a table twice", "[training]\nlr = 1\n[training]\nctx = 2\n"),
    toml("a whole number above 2^63", "[run]\nseed = 9223372036854775808\n", {
      errors: "/run/seed out_of_range…",
      ...KEY,
    }),
    toml("a date for a number", "[training]\nlr = 1979-05-27T00:00:00Z\n", {
      errors: "/training/lr invalid_value…",
      ...KEY,
    }),
    toml("infinity for a number", "[training]\nlr = inf\n", {
      errors: "/training/lr invalid_value…",
      ...KEY,
    }),
    toml("no number for a number", "[training]\nlr = nan\n", {
      errors: "/training/lr invalid_value…",
      ...KEY,
    }),
    toml("a string without its end", `x = "${"a".repeat(1e5)}`),
    toml("a comment of 100,000 quotes", `x = 1 #${'"'.repeat(1e5)}\ny = `),
    toml("8 MB of line ends", "\n".repeat(8e6)),
  ];
}
