import assert from "node:assert/strict";
import { resolveConfig, type ResolvedConfig } from "../../config/check/derive.ts";
import { parseRunConfig } from "../../config/check/load.ts";
import { checkedFile, withCheckedFiles } from "../../core/regular_file.ts";
import { testConfig } from "../config_testing.ts";
import {
  changedKeys,
  checkFork,
  configToml,
  flattenConfig,
  identityHash,
  identityOf,
  inputFingerprints,
  refuseChanges,
} from "./config_identity.ts";

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
  const identity = (config: ResolvedConfig) =>
    identityOf(config, { "model.path": "m", "agent.scenarios": "s" });
  assert.deepEqual(identity(moved), identity(config));
  assert.equal(identity(config)["model.path"], "m");
  const fewer = structuredClone(config);
  fewer.agent!.concurrent_rollouts = 1;
  assert.deepEqual(identity(fewer), identity(config));
  const other = structuredClone(config);
  other.training.lr *= 2;
  assert.notEqual(identityHash(identity(other)), identityHash(identity(config)));
  assert.deepEqual(changedKeys(identity(config), identity(other)), ["training.lr"]);
  refuseChanges(identity(config), identity(moved), "/d");
  assert.throws(() => refuseChanges(identity(config), identity(other), "/d"), /training\.lr.*--fork/);
});

Deno.test("a refused resume suggests a fork if a fork is allowed, else a new run", () => {
  const before = testConfig("/somewhere");
  const refusal = (change: (config: ReturnType<typeof testConfig>) => void) => {
    const after = structuredClone(before);
    change(after);
    const [from, to] = [identityOf(before, {}), identityOf(after, {})];
    const proposes_fork = (() => {
      try {
        return refuseChanges(from, to, "/d") ?? "";
      } catch (error) {
        return (error as Error).message;
      }
    })();
    const is_taken = (() => {
      try {
        return checkFork(from, to) !== null;
      } catch {
        return false;
      }
    })();
    assert.equal(/--fork/.test(proposes_fork), is_taken, proposes_fork);
    if (!is_taken) assert.match(proposes_fork, /change it back, or start a new run/);
    return is_taken;
  };
  assert.ok(refusal((config) => config.agent!.updates = 9));
  assert.ok(refusal((config) => config.agent!.clip_high = 0.5));
  assert.ok(!refusal((config) => config.agent!.group_size = 6));
  assert.ok(
    !refusal((config) => {
      config.training.lr = 1;
      config.lora.rank = 2;
    }),
  );
});

Deno.test("a fork may change what the contract allows, key by key", () => {
  const before = testConfig("/somewhere");
  const fork = (change: (config: ReturnType<typeof testConfig>) => void) => {
    const after = structuredClone(before);
    change(after);
    return checkFork(identityOf(before, {}), identityOf(after, {}));
  };
  assert.deepEqual(fork((config) => config.agent!.updates = 9), []);
  assert.deepEqual(fork((config) => config.training.lr = 1), []);
  assert.deepEqual(fork((config) => config.agent!.max_turns = 2), ["agent.max_turns"]);
  assert.deepEqual(fork((config) => config.agent!.clip_low = 0.1), ["agent.clip_low"]);
  assert.throws(() => fork((config) => config.agent!.group_size = 6), {
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
  assert.deepEqual(identityOf(again, {}), identityOf(config, {}));
  assert.ok(!text.includes("runs/test"));
});

Deno.test("a file counts by its contents at both ends", async () => {
  const root = await Deno.realPath(await Deno.makeTempDir());
  try {
    const config = testConfig(root);
    const write = (bytes: Uint8Array) => Deno.writeFile(config.model.path, bytes);
    await Deno.writeTextFile(config.agent!.scenarios, "{}");
    const bytes = new Uint8Array(9 << 20);
    await write(bytes);
    const first = await inputFingerprints(config);
    assert.deepEqual(Object.keys(first).toSorted(), ["agent.scenarios", "model.path"]);
    for (const at of [0, bytes.length - 1]) {
      bytes[at]! ^= 1;
      await write(bytes);
      assert.notEqual((await inputFingerprints(config))["model.path"], first["model.path"]);
      bytes[at]! ^= 1;
    }
    await write(bytes);
    assert.deepEqual(await inputFingerprints(config), first);
    await write(bytes.subarray(1));
    assert.notEqual((await inputFingerprints(config))["model.path"], first["model.path"]);
    await write(new Uint8Array(3));
    await inputFingerprints(config);
    const path = await Deno.realPath(config.model.path), checked = await checkedFile(path);
    await Deno.rename(config.agent!.scenarios, path);
    await assert.rejects(withCheckedFiles([checked], () => inputFingerprints(config, ["model.path"])), {
      code: "path_not_found",
      message: `Cannot read ${path}: another file has taken its place`,
    });
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});
