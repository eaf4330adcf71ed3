import assert from "node:assert/strict";
import { parseRunConfig } from "./load.ts";
import { readOverrides } from "./overrides.ts";
import { resolveLoaded } from "./resolve.ts";
import { valueSources } from "./sources.ts";

Deno.test("each value is the file's, an override's, a default or derived", () => {
  const path = "/jobs/a.toml";
  const text = `run.algorithm = "sft"\nmodel.path = "m.gguf"\nsft.data = "d.jsonl"\nlora.rank = 8\n`;
  const { overrides } = readOverrides(["training.lr=1e-4"], path);
  const loaded = { ...parseRunConfig(text, { path }), overrides };
  const facts = { path, context_length: 1024, vocabulary: 1000 };
  const sources = valueSources(loaded, resolveLoaded(loaded, facts));
  const of = (...keys: string[]) => keys.map((key) => sources[key]);
  assert.deepEqual(of("sft.data", "lora.rank", "training.lr"), ["override", "override", "override"]);
  assert.deepEqual(of("sft.packing", "lora.alpha", "model.kv"), ["default", "default", "default"]);
  assert.deepEqual(
    of("training.ctx", "training.epochs", "run.name", "lora.seed"),
    ["derived", "derived", "derived", "derived"],
  );
  assert.equal("agent.updates" in sources, false, "what has no value has no source");
});

Deno.test("the shape of the initial adapter is derived, also where it equals the defaults", () => {
  const path = "/jobs/a.toml", facts = { path, context_length: 1024, vocabulary: 1000 };
  const text = (more: string) =>
    `run.algorithm = "sft"\nmodel.path = "m.gguf"\nsft.data = "d.jsonl"\n${more}`;
  const sources = (more: string) => {
    const loaded = parseRunConfig(text(more), { path });
    const init_adapter = { rank: 8, alpha: 16, targets: "all" as const };
    const from = loaded.config.lora.init_adapter === undefined ? {} : { init_adapter };
    const found = valueSources(loaded, resolveLoaded(loaded, { ...facts, ...from }));
    return ["rank", "alpha", "targets", "dropout"].map((key) => found[`lora.${key}`]);
  };
  assert.deepEqual(sources(""), ["default", "default", "default", "default"]);
  const from = 'lora.init_adapter = "a.gguf"\n';
  assert.deepEqual(sources(from), ["derived", "derived", "derived", "default"]);
  assert.deepEqual(sources(`${from}lora.rank = 8`), ["override", "derived", "derived", "default"]);
});
