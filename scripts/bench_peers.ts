/**
 * `deno task bench-peers [--rounds <n>] [--python <program>]`: tokens per second of prefill and decode with the tiny model
 * and an adapter, in this program, in PyTorch and in llama.cpp's build for the processor, which take turns. Stores them in
 * docs/bench/peers.jsonl. Nothing asserts a time.
 */

import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { ServiceError } from "../core/errors.ts";
import { writeFileAtomic } from "../core/files.ts";
import { fixturePath } from "../tests/fixture.ts";
import { withFolder } from "../tests/folder.ts";
import { llamaCppMissing, measureSpeeds } from "../tests/llama_cpp.ts";
import { type BenchLine, currentCommit, machineName, readLines, round } from "./bench/report.ts";
import { hasTorch } from "./bench_update.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const RESULTS = join(ROOT, "docs/bench/peers.jsonl");
/** Of llama.cpp; the others repeat as their own benches do. */
const REPETITIONS = 3;

/** Tokens per second by the name of a measurement, such as `decode, 8 sequences`. */
export type Speeds = Map<string, number>;

/** The better of two rounds of each measurement. */
export function faster(a: Speeds, b: Speeds): Speeds {
  const names = new Set([...a.keys(), ...b.keys()]);
  return new Map([...names].map((name) => [name, Math.max(a.get(name) ?? 0, b.get(name) ?? 0)]));
}

/** The measurements of one program, each beside the same one of `first`. `ratio` is above 1 where it is faster. */
export function comparison(by: string, speeds: Speeds, first: Speeds) {
  return [...speeds].map(([name, value]) => ({
    bench: "peers",
    by,
    name,
    value: round(value),
    unit: "tokens/s",
    ratio: round(value / first.get(name)!),
  }));
}

const nameOf = ({ bench, name }: { bench: string; name: string }) => `${bench}, ${name}`;

/** Runs a program that prints for people. @throws {ServiceError} When it fails. */
async function run(program: string, args: readonly string[]): Promise<void> {
  const { success, stderr } = await new Deno.Command(program, { args: [...args], stdout: "null" }).output();
  if (success) return;
  throw new ServiceError(
    "internal",
    `Cannot measure: ${program} failed:\n${new TextDecoder().decode(stderr)}`,
  );
}

async function ours(file: string): Promise<{ lines: BenchLine[]; speeds: Speeds }> {
  const bench = join(ROOT, "scripts/bench.ts");
  await run(Deno.execPath(), ["run", "-A", bench, "--only", "prefill,decode", "--out", file]);
  const lines = (await readLines(file)).filter(({ bench }) => bench !== "peak");
  return { lines, speeds: speedsOf(lines) };
}

function speedsOf(lines: readonly { bench: string; name: string; value: number | null }[]): Speeds {
  return new Map(lines.map((line) => [nameOf(line), line.value!]));
}

async function pytorch(python: string, file: string): Promise<Speeds> {
  const out = file.replace(".jsonl", "_pytorch.jsonl"), script = join(ROOT, "scripts/bench_pytorch.py");
  await run(python, [script, "--bench", file, "--out", out, "--device", "cpu", "--only", "prefill,decode"]);
  return speedsOf(await readLines(out));
}

/** llama.cpp on the same numbers of sequences and tokens. */
async function llamaCpp(
  lines: readonly BenchLine[],
  paths: { model: string; adapter: string },
): Promise<Speeds> {
  const number = (line: BenchLine, field: string) => line[field] as number;
  const prefills = lines.filter(({ bench }) => bench === "prefill");
  const decodes = lines.filter(({ bench }) => bench === "decode");
  const measured = await measureSpeeds({
    ...{
      model_path: paths.model,
      adapter_path: paths.adapter,
      threads: navigator.hardwareConcurrency,
      repetitions: REPETITIONS,
    },
    prefills: prefills.map((line) => ({
      sequences: number(line, "sequences"),
      tokens: number(line, "tokens"),
    })),
    decodes: decodes.map((line) => ({
      sequences: number(line, "batch"),
      prompt: number(line, "prompt"),
      tokens: number(line, "tokens"),
    })),
  });
  const rates = [...measured.prefills, ...measured.decodes];
  return new Map([...prefills, ...decodes].map((line, i) => [nameOf(line), rates[i]!]));
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      rounds: { type: "string", default: "2" },
      python: { type: "string", default: "python3" },
    },
  });
  const paths = {
    model: await fixturePath("models/tiny-agent-f16.gguf"),
    adapter: await fixturePath("models/tiny-agent/golden-lora/golden-lora.gguf"),
  };
  const missing = llamaCppMissing(), has_torch = await hasTorch(values.python);
  if (missing !== null) console.log(`llama.cpp is not measured: ${missing}`);
  if (!has_torch) console.log(`PyTorch is not measured: ${values.python} has no module torch`);
  const best = new Map<string, Speeds>();
  const keep = (by: string, speeds: Speeds) => best.set(by, faster(best.get(by) ?? new Map(), speeds));
  await withFolder(async (folder) => {
    for (let round = 0; round < Number(values.rounds); round++) {
      const file = join(folder, `${round}.jsonl`), { lines, speeds } = await ours(file);
      keep("svc", speeds);
      if (has_torch) keep("pytorch", await pytorch(values.python, file));
      if (missing === null) keep("llama.cpp", await llamaCpp(lines, paths));
    }
  });
  const facts = { machine: await machineName(), commit: await currentCommit(), deno: Deno.version.deno };
  const [load_average] = Deno.loadavg(), time = new Date().toISOString();
  const lines = [...best].flatMap(([by, speeds]) => comparison(by, speeds, best.get("svc")!));
  for (const { by, name, value, unit, ratio } of lines) {
    console.log(`${by.padEnd(10)} ${name.padEnd(28)} ${String(value).padStart(8)} ${unit}  ratio ${ratio}`);
  }
  const stored = lines.map((line) => JSON.stringify({ ...line, ...facts, load_average, time }));
  await writeFileAtomic(RESULTS, `${stored.join("\n")}\n`);
}
