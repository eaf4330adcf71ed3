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
  const init_adapter = { rank: 8, alpha: 99, targets: "all" as const };
  const taken = valueSources(loaded, resolveLoaded(loaded, { ...facts, init_adapter }));
  assert.equal(taken["lora.alpha"], "derived", "an adapter's own shape is no default");
});
