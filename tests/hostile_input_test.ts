/**
 * Malicious files: whatever they contain, a command ends with a clear error, and nothing in them controls a terminal.
 */

import fc from "fast-check";
import assert from "node:assert/strict";
import { runCli } from "../cli/program.ts";
import { testContext, testTerminal } from "../cli/context_fake.ts";
import { ServiceError } from "../core/errors.ts";
import { printable } from "../core/text.ts";
import { prepareRun } from "../runs/plan/prepare.ts";
import { openGguf } from "../trainer/formats/gguf.ts";
import type { GgufValue } from "../trainer/formats/gguf_values.ts";
import { writeGguf } from "../trainer/formats/gguf_writer.ts";
import { fixturePath, readFixture, readFixtureText } from "./fixture.ts";
import { withFolder } from "./folder.ts";

const RUNS = Number(Deno.env.get("SVC_FUZZ_RUNS") ?? 40);
const SETTINGS = { numRuns: RUNS, seed: Number(Deno.env.get("SVC_FUZZ_SEED") ?? 6), endOnFailure: true };

const TEXTS = {
  scenarios: await readFixtureText("models/tiny-agent/scenarios.heldout.jsonl"),
  rows: await readFixtureText("models/tiny-agent/sft-traces.jsonl"),
};
const MODEL = await readFixture("models/tiny-agent-q8_0.gguf");
/** The header with its tokenizer, and a part of the weights after it. */
const HEADER_BYTES = 64 << 10;

/** Runs a command as far as possible without starting an engine. */
async function run(...args: string[]): Promise<{ code: number; out: string; err: string }> {
  const terminal = testTerminal();
  const refuse = () => {
    throw new ServiceError("device_unavailable", "Cannot start: everything before it was taken");
  };
  const context = testContext({
    terminal,
    startRun: async ({ loaded }) => (await prepareRun(loaded), refuse()),
    evaluate: async ({ loaded }) => (await prepareRun(loaded), refuse()),
  });
  return { code: await runCli(args, context), out: terminal.out, err: terminal.err };
}

/** Runs every command that reads a configuration, or the file itself. */
async function expectClear(commands: string[][]): Promise<void> {
  for (const args of commands) {
    const { code, out, err } = await run(...args);
    const shown = `${args.join(" ")}: ${code}\n${err}`;
    assert.ok([0, 2, 3].includes(code), shown);
    assert.doesNotMatch(err, /^\s+at .*(\.ts|node:|npm:|ext:)/m, shown);
    if (code === 2) assert.match(err, /^svc: Cannot /, shown);
    assert.equal(printable(out + err), out + err, shown);
    // Only the program starts a line.
    for (const line of err.split("\n").slice(0, -1)) assert.match(line, /^(svc: | {2})/, shown);
  }
}

const HOSTILE = [
  "\x1b[2J",
  "\x9b",
  "\u202e",
  "\n",
  "\r\n",
  "\0",
  '"',
  "'",
  "\\",
  "{",
  "}",
  "[",
  "]",
  "[[",
  "]]",
  "=",
  ".",
  ",",
  "#",
  "nan",
  "-inf",
  "1e400",
  "-1",
  "0",
  "99999999999999999999",
  "1979-05-27",
  "true",
  "null",
  "__proto__",
  "constructor",
  "[".repeat(300),
  '{"a":'.repeat(300),
  "{a=".repeat(300),
  "a.".repeat(300),
  "\ud800",
  "é",
  "\ufeff",
  "/dev/full",
  "/dev",
  "x".repeat(5000),
  '"\\u001b[2J\\nsvc: done"',
  "\t",
  "{}",
  "[]",
  '""',
  "0x7fffffffffffffff",
];

/** Values that are valid in both TOML and JSON, then values for only one of them. */
const VALUES = [
  ...[
    '"\\u001b[2J\\nsvc: done"',
    '["\\u001b"]',
    "[[1], [2]]",
    "9223372036854775807",
    "-5",
    "1e308",
    "1.5",
    "[]",
    "0",
  ],
  ...[
    '"/dev/full"',
    '"/dev/zero"',
    '"."',
    '""',
    '"\\u0000"',
    "true",
    '"' + "x/".repeat(3000) + '"',
    '"\\u202e"',
  ],
  ...[
    "inf",
    "{ a = 1 }",
    "1979-05-27T00:00:00Z",
    "null",
    '{"a":{"b":[]}}',
    '["q_proj", "q_proj"]',
    '[{"role":"user"}]',
  ],
  ...[
    "[" + "1,".repeat(200) + "1]",
    '[{"role":"assistant","content":"x","tool_calls":[{"function":{"name":"\\n"}}]}]',
  ],
  ...['{"files":{"../x":"","a\\n":"","a/b":"","a":""},"setup":["\\u0000"],"verify":{"command":["\\u0000"]}}'],
];

/** Lines that a file of either kind could contain additionally. */
const LINES = [
  '\n"\\u001b[2J\\nsvc: done" = 1\n',
  "\n[agent]\n",
  "\n[[agent.mcp_servers]]\n",
  '\n[agent."\\u009b"]\nx = 1\n',
  '\n[agent.judge]\ntype = "\\u001b"\n',
  "\n{}\n",
  '\n{"id":"\\u001b","user":"\\u009b"}\n',
  '\n{"text":"\\ud800"}\n',
  '\n{"prompt":"","completion":""}\n',
  "\n\n",
  '\n{"messages":[]}\n',
  '\n{"\\u001b":1}\n',
  '\n{"messages":[{"role":"\\u001b","content":null},{"role":"assistant","content":"x"}]}\n',
];

/** One change of a text: a part of it is replaced by something hostile, or by another part. */
const edit = fc.record({
  at: fc.noBias(fc.nat(9999)).map((n) => n / 10_000),
  remove: fc.oneof(fc.constant(0), fc.nat(3), fc.nat(200)),
  insert: fc.oneof(
    { weight: 3, arbitrary: fc.constantFrom(...VALUES) },
    fc.constantFrom(...HOSTILE),
    fc.constantFrom(...LINES),
    fc.string({ unit: "binary", maxLength: 8 }),
  ),
  /** Replaces an entire value after a `=` or `:`. */
  is_value: fc.integer({ min: 0, max: 3 }).map((n) => n > 0),
});
/** Mostly one change: after the first refused one, others are not reached. */
const EDITS = fc.oneof(
  { weight: 4, arbitrary: fc.tuple(edit) },
  fc.array(edit, { minLength: 2, maxLength: 3 }),
);
type Edit = typeof edit extends fc.Arbitrary<infer T> ? T : never;

function edited(text: string, edits: readonly Edit[]): string {
  for (const { at, remove, insert, is_value } of edits) {
    let begin = Math.floor(at * text.length), end = begin + remove;
    if (is_value) {
      const value = /[=:] *("(?:[^"\\]|\\.)*"|[^,\n}\]]+)/g;
      value.lastIndex = begin;
      const found = value.exec(text);
      if (found && !insert.startsWith("\n")) [begin, end] = [found.index + 1, found.index + found[0].length];
    }
    text = text.slice(0, begin) + insert + text.slice(end);
  }
  return text;
}

const configs = (model: string, scenarios: string, rows: string) => ({
  agent: `[run]
algorithm = "agent_grpo"
seed = 4
[model]
path = ${JSON.stringify(model)}
[lora]
rank = 8
targets = ["q_proj", "v_proj"]
[training]
ctx = 640
lr = 3e-3
[agent]
scenarios = ${JSON.stringify(scenarios)}
updates = 3
scenarios_per_update = 2
max_new_tokens_per_turn = 48
system_suffix = "Be brief."
template_variables = { enable_thinking = false, list = [1, 2] }
[agent.environment]
type = "local"
allow_unsandboxed = true
scenario_toolsets = ["files"]
[evaluation]
data = ${JSON.stringify(scenarios)}
max_examples = 4
[checkpoint]
every_updates = 1
[observe]
`,
  sft: `run.algorithm = "sft"
model = { path = ${JSON.stringify(model)} }
sft.data = ${JSON.stringify(rows)}
evaluation.data = ${JSON.stringify(rows)}
training.ctx = 512
output.peft_dir = "peft"
metrics.csv = "m.csv"
`,
});

const head = (text: string, lines: number) => text.split("\n").slice(0, lines).join("\n");

Deno.test("a configuration of any text", () =>
  withFolder(async (folder) => {
    const [scenarios, rows] = [`${folder}/s.jsonl`, `${folder}/r.jsonl`];
    await Deno.writeTextFile(scenarios, head(TEXTS.scenarios, 4));
    await Deno.writeTextFile(rows, head(TEXTS.rows, 3));
    const model = await fixturePath("models/tiny-agent-q8_0.gguf");
    const bases = Object.values(configs(model, scenarios, rows));
    const path = `${folder}/run.toml`;
    const commands = [["tools", "list", path], ["train", path], ["eval", path], [
      "tools",
      "list",
      path,
      "--json",
    ]];
    for (const base of bases) {
      await Deno.writeTextFile(path, base);
      for (const args of commands.slice(0, 3)) {
        assert.ok([0, 3].includes((await run(...args)).code), args.join(" "));
      }
    }
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...bases),
        EDITS,
        async (base, edits) => {
          await Deno.writeTextFile(path, edited(base, edits));
          await expectClear(commands);
        },
      ),
      SETTINGS,
    );
  }));

Deno.test("data of any text", () =>
  withFolder(async (folder) => {
    const [scenarios, rows] = [`${folder}/s.jsonl`, `${folder}/r.jsonl`];
    const model = await fixturePath("models/tiny-agent-q8_0.gguf");
    const texts = { agent: head(TEXTS.scenarios, 4), sft: head(TEXTS.rows, 3) };
    const bases = configs(model, scenarios, rows);
    const paths = { agent: `${folder}/agent.toml`, sft: `${folder}/sft.toml` };
    for (const name of ["agent", "sft"] as const) await Deno.writeTextFile(paths[name], bases[name]);
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom("agent", "sft"),
        EDITS,
        async (name, edits) => {
          await Deno.writeTextFile(name === "agent" ? scenarios : rows, edited(texts[name], edits));
          await expectClear([["train", paths[name]], ["eval", paths[name]]]);
        },
      ),
      SETTINGS,
    );
  }));

/** One change of bytes to numbers that no header should have. */
const poke = fc.record({
  at: fc.oneof(fc.noBias(fc.nat(400)), fc.noBias(fc.nat(HEADER_BYTES))),
  bytes: fc.oneof(
    fc.uint8Array({ minLength: 1, maxLength: 8 }),
    fc.constantFrom(
      ...[0, 1, 2 ** 31, 2 ** 32, 2 ** 52, 2 ** 63, 2 ** 64 - 1].map((n) =>
        new Uint8Array(BigUint64Array.of(BigInt.asUintN(64, BigInt(n))).buffer)
      ),
      new TextEncoder().encode("\x1b[2J\nsvc"),
    ),
  ),
});

Deno.test("a model of any bytes", () =>
  withFolder(async (folder) => {
    const model = `${folder}/m.gguf`, rows = `${folder}/r.jsonl`, path = `${folder}/run.toml`;
    await Deno.writeTextFile(rows, head(TEXTS.rows, 1));
    await Deno.writeTextFile(path, configs(model, rows, rows).sft);
    await fc.assert(
      fc.asyncProperty(
        fc.array(poke, { minLength: 1, maxLength: 4 }),
        fc.option(fc.nat(MODEL.length)),
        async (pokes, cut) => {
          const bytes = MODEL.slice(0, cut ?? undefined);
          for (const { at, bytes: poked } of pokes) {
            if (at + poked.length < bytes.length) bytes.set(poked, at);
          }
          await Deno.writeFile(model, bytes);
          await expectClear([["inspect", model], ["inspect", model, "--json"], ["train", path]]);
        },
      ),
      SETTINGS,
    );
  }));

/** A metadata value that no model has. */
const value: fc.Arbitrary<GgufValue> = fc.oneof(
  fc.constantFrom(0, 1, 3, 2 ** 31, 2 ** 32 - 1).map((n): GgufValue => ({ type: "uint32", value: n })),
  fc.constantFrom(0n, 2n ** 53n, 2n ** 63n).map((n): GgufValue => ({ type: "uint64", value: n })),
  fc.constantFrom(0, -1, NaN, Infinity, 1e-30).map((n): GgufValue => ({ type: "float32", value: n })),
  fc.constantFrom(
    "",
    "\x1b[2J\nsvc: done",
    "gpt2",
    "{{ 1/0 }}{% for x in messages %}",
    "{{ messages[99].content.x }}",
    "\u202e",
  )
    .map((text): GgufValue => ({ type: "string", value: text })),
  fc.constantFrom([], ["\x1b"], Array(1024).fill("a"), Array.from({ length: 1024 }, (_, i) => `${i}`), [
    "a b",
    "\n",
  ])
    .map((texts): GgufValue => ({ type: "array", item_type: "string", value: texts })),
  fc.constantFrom([], [-1], Array(1024).fill(9)).map((numbers): GgufValue => ({
    type: "array",
    item_type: "int32",
    value: Int32Array.from(numbers),
  })),
  fc.constant<GgufValue>({ type: "bool", value: true }),
);

Deno.test("a model of any metadata and tensors", () =>
  withFolder(async (folder) => {
    const model = `${folder}/m.gguf`, rows = `${folder}/r.jsonl`, path = `${folder}/run.toml`;
    await Deno.writeTextFile(rows, head(TEXTS.rows, 1));
    await Deno.writeTextFile(path, configs(model, rows, rows).sft);
    await Deno.writeFile(model, MODEL);
    using file = await openGguf(model);
    const keys = [...file.metadata.keys()], names = [...file.tensors.keys()];
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(fc.noBias(fc.constantFrom(...keys)), fc.option(value)), {
          minLength: 1,
          maxLength: 2,
        }),
        fc.option(
          fc.tuple(fc.constantFrom(...names), fc.constantFrom("", "\x1b]0;", "blk.0.attn_q.weight2")),
        ),
        async (changes, renamed) => {
          const metadata = new Map(file.metadata);
          for (const [key, other] of changes) {
            if (other === null) metadata.delete(key);
            else metadata.set(key, other);
          }
          metadata.delete("general.alignment");
          // Only the weights' shapes are read, so one value is enough for each.
          const tensors = names.map((name) => ({
            name: renamed?.[0] === name ? renamed[1] : name,
            type: "F32" as const,
            shape: name.endsWith("norm.weight") ? file.tensor(name).shape : [1, 1],
          })).map((tensor) => ({
            ...tensor,
            pieces: () => [new Uint8Array(4 * tensor.shape.reduce((a, b) => a * b))],
          }));
          await writeGguf(model, { metadata, tensors });
          await expectClear([["inspect", model], ["inspect", model, "--json"], ["train", path]]);
        },
      ),
      SETTINGS,
    );
  }));
