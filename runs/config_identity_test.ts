import assert from "node:assert/strict";
import { resolveConfig } from "../config/derive.ts";
import { parseRunConfig } from "../config/load.ts";
import {
  changedKeys,
  checkFork,
  configHash,
  configToml,
  flattenConfig,
  refuseChanges,
  trainingKeys,
} from "./config_identity.ts";
import { testConfig } from "./testing.ts";

Deno.test("leaves are named by dotted keys and sorted", () => {
  assert.deepEqual([...flattenConfig({ b: { d: 1, c: [1, { x: 2 }] }, a: {}, e: undefined })], [
    ["a", {}],
    ["b.c", [1, { x: 2 }]],
    ["b.d", 1],
  ]);
});

Deno.test("places and names do not change a run's identity, training does", () => {
  const config = testConfig("/somewhere");
  const moved = testConfig(
    "/somewhere",
    '[checkpoint]\nevery_updates = 2\n[observe]\n[output]\npath = "x.gguf"',
  );
  assert.equal(configHash(moved), configHash(config));
  const other = structuredClone(config);
  other.training.lr *= 2;
  assert.notEqual(configHash(other), configHash(config));
  assert.deepEqual(changedKeys(trainingKeys(config), trainingKeys(other)), ["training.lr"]);
  refuseChanges(trainingKeys(config), moved);
  assert.throws(() => refuseChanges(trainingKeys(config), other), /training\.lr.*--fork/);
});

Deno.test("a fork may change what the contract allows, key by key", () => {
  const before = testConfig("/somewhere");
  const fork = (change: (config: ReturnType<typeof testConfig>) => void) => {
    const after = structuredClone(before);
    change(after);
    return checkFork(trainingKeys(before), after);
  };
  assert.deepEqual(fork((config) => config.agent!.updates = 9), []);
  assert.deepEqual(fork((config) => config.training.lr = 1), []);
  assert.deepEqual(fork((config) => config.agent!.max_turns = 2), ["agent.max_turns"]);
  assert.deepEqual(fork((config) => config.agent!.clip_low = 0.1), ["agent.clip_low"]);
  assert.throws(() => fork((config) => config.agent!.group_size = 4), {
    code: "conflict",
    message: /group_size/,
  });
  assert.throws(() => fork((config) => config.run.seed = 4), /run\.seed/);
});

Deno.test("the stored configuration loads again and resolves to the same training", () => {
  const config = testConfig("/somewhere", "[checkpoint]\n[observe]");
  const text = configToml(config);
  const path = "/somewhere/again.toml";
  const again = resolveConfig(parseRunConfig(text, { path }).config, {
    path,
    context_length: 256,
    vocabulary: 64,
  });
  assert.equal(configHash(again), configHash(config));
  assert.ok(!text.includes("runs/test"));
});
