/** Short files of rows, and SFT of a small model on some, for a server and for `svc train`. */

import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { fixturePath, readFixtureText } from "./fixture.ts";

const CLI = fileURLToPath(new URL("../cli.ts", import.meta.url));
const PAIRS = fileURLToPath(new URL("../examples/tiny_agent_pairs.train.jsonl", import.meta.url));

/** The files of a run in a folder, and what starts it. */
export interface SmallSft {
  model: string;
  data: string;
  /** The body of a request that creates the run. */
  recipe: Record<string, unknown>;
}

/** Further keys of the configuration, by dotted name. */
type Params = Readonly<Record<string, unknown>>;

/** Rows of a short file. Planning renders all rows, which takes a second or two for those of the fixtures. */
const ROWS = 20;

async function writeFirstRows(path: string, text: string): Promise<void> {
  await Deno.writeTextFile(path, `${text.split("\n").slice(0, ROWS).join("\n")}\n`);
}

/** Writes the first of the tiny agent's conversations. */
export async function writeTraces(path: string): Promise<void> {
  await writeFirstRows(path, await readFixtureText("models/tiny-agent/sft-traces.jsonl"));
}

/** Writes the first pairs of the preference example. */
export async function writePairs(path: string): Promise<void> {
  await writeFirstRows(path, await Deno.readTextFile(PAIRS));
}

/** The rows of a file. */
export function textRows(count: number, of: string): string {
  return Array.from(
    { length: count },
    (_, i) => JSON.stringify({ text: `Once there was a ${of} number ${i}.` }),
  )
    .join("\n");
}

/** Writes model and rows, and returns the recipe of a run of so many updates. */
export async function smallSft(
  root: string,
  { updates, more = {} }: { updates: number; more?: Params },
): Promise<SmallSft> {
  const model = `${root}/model.gguf`, data = `${root}/rows.jsonl`;
  await Deno.copyFile(await fixturePath("models/tiny-agent-f16.gguf"), model);
  await Deno.writeTextFile(data, textRows(12, "cat"));
  const params = { "training.ctx": 64, "training.batch_tokens": 64, "training.lr": 1e-3, ...more };
  return { model, data, recipe: { recipe: "sft", model, data, budget: { updates }, params } };
}

/** The adapter that `svc train` makes of the same keys. */
export async function trainedBySvc(root: string, { model, data, recipe }: SmallSft): Promise<Uint8Array> {
  const { budget, params } = recipe as { budget: { updates: number }; params: Params };
  const keys = { "training.updates": budget.updates, ...params };
  const toml = [
    `run = { algorithm = "sft", directory = "run" }`,
    `model.path = ${JSON.stringify(model)}`,
    `sft.data = ${JSON.stringify(data)}`,
    ...Object.entries(keys).map(([key, value]) => `${key} = ${JSON.stringify(value)}`),
  ];
  await Deno.writeTextFile(`${root}/run.toml`, toml.join("\n"));
  const trained = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", CLI, "train", `${root}/run.toml`],
    stdout: "null",
  }).output();
  assert.ok(trained.success, new TextDecoder().decode(trained.stderr));
  return await Deno.readFile(`${root}/run/adapter.gguf`);
}
