import assert from "node:assert/strict";
import { resolveConfig, type ResolvedConfig } from "../../config/derive.ts";
import { parseRunConfig } from "../../config/load.ts";
import { testConfig } from "../config_testing.ts";
import {
  changedKeys,
  checkFork,
  configToml,
  flattenConfig,
  identityHash,
  identityOf,
  inputFingerprints,
  publicConfig,
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
  const root = await Deno.makeTempDir();
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
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});

Deno.test("clients see what comes from the catalogue by its id, and none of the run's paths", () => {
  const config = testConfig("/srv/data");
  const agent = config.agent as unknown as Record<string, unknown>;
  agent.reward = "house_reward";
  agent.judge = {
    id: "house",
    type: "ruler",
    base_url: "https://secret.example",
    api_key_env: "KEY",
    rubric: "secret",
  };
  agent.environment = {
    id: "box",
    type: "container",
    image: "secret",
    limits: { cpus: 1 },
    pool: { max_live: 2 },
  };
  agent.mcp_servers = [
    {
      id: "search",
      command: ["secret"],
      allowed_tools: ["find"],
      denied_tools: [],
      required: true,
      stateless: true,
    },
    { name: "own", command: ["mine"] },
  ];
  const shown = publicConfig(config);
  const { reward, judge, environment, mcp_servers } = shown.agent as Record<string, unknown>;
  assert.deepEqual({ reward, judge, environment, mcp_servers }, {
    reward: "house_reward",
    judge: { id: "house" },
    environment: { id: "box", limits: { cpus: 1 }, pool: { max_live: 2 } },
    mcp_servers: [
      { id: "search", allowed_tools: ["find"], denied_tools: [], required: true },
      { name: "own", command: ["mine"] },
    ],
  });
  assert.deepEqual([shown.output, shown.run], [{ adapter: config.output.adapter }, {
    algorithm: "agent_grpo",
    name: "test",
    seed: 7,
  }]);
  // Without a catalogue's entry everything is the client's own.
  assert.deepEqual(
    (publicConfig(testConfig("/srv/data")).agent as typeof agent).environment,
    testConfig("/x").agent!.environment,
  );
  assert.equal(config.run.directory, "/srv/data/runs/test");
});
