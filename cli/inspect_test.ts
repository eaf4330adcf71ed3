import assert from "node:assert/strict";
import { ARCHITECTURE_NAMES } from "../runs/models/architectures.ts";
import type { GgufMetadata } from "../trainer/formats/gguf_values.ts";
import { writeGguf } from "../trainer/formats/gguf_writer.ts";
import { inspectFile } from "./inspect.ts";
import { fixturePath } from "../tests/fixture.ts";
import { runSvc } from "./context_fake.ts";

const MODELS = new URL("../fixtures/models/", import.meta.url).pathname;
const F16 = `${MODELS}tiny-agent-f16.gguf`;
const ADAPTER = await fixturePath("models/tiny-agent/golden-lora/golden-lora.gguf");
const TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"];

/** in + out of every projection of a layer: width 256, queries 512 wide, keys and values 128, feed-forward 512. */
const SIDES = [768, 384, 384, 768, 768, 768, 768].reduce((sum, side) => sum + side, 0);

Deno.test("a model's header facts are those of its documentation", async () => {
  const found = await inspectFile(F16);
  assert.ok(found.kind === "model");
  assert.deepEqual(
    [found.architecture, found.parameters, found.layers, found.width, found.context_length, found.vocabulary],
    ["qwen3", 3_410_688, 4, 256, 1024, 1024],
  );
  assert.equal(found.size_bytes, 6_859_328);
  const { F16: matrices, F32: norms } = found.tensor_types;
  assert.equal(matrices!.tensors + norms!.tensors, 47);
  assert.equal(matrices!.tensors, 4 * 7 + 2);
  assert.equal(found.tokenizer, "gpt2 qwen2");
  assert.deepEqual(found.lora_targets, TARGETS);
  assert.equal(found.lora_parameters, 4 * 8 * SIDES);
  assert.equal(found.not_trainable, null);
});

/** The f16 model with its bytes changed. */
async function withChanged(change: (bytes: Uint8Array) => void, body: (path: string) => Promise<void>) {
  const path = await Deno.makeTempFile({ suffix: ".gguf" });
  try {
    const bytes = await Deno.readFile(F16);
    change(bytes);
    await Deno.writeFile(path, bytes);
    await body(path);
  } finally {
    await Deno.remove(path);
  }
}

/** All positions of a text in the header. */
function placesOf(bytes: Uint8Array, text: string): number[] {
  const header = new TextDecoder("latin1").decode(bytes.subarray(0, 1 << 16));
  return [...header.matchAll(RegExp(text.replaceAll(".", "\\."), "g"))].map(({ index }) => index);
}

Deno.test("a model that cannot be trained has no LoRA targets but a reason", async () => {
  const cases: [change: (bytes: Uint8Array) => void, reason: RegExp][] = [
    [
      (bytes) => placesOf(bytes, "qwen3").forEach((at) => bytes.set(new TextEncoder().encode("mamba"), at)),
      RegExp(
        `the architecture mamba is not in this build, which has ${ARCHITECTURE_NAMES.join(", ")}$`,
      ),
    ],
    [
      // After the name: the number of dimensions, two of them, and the type; 20 is IQ4_NL, which takes less room.
      (bytes) =>
        bytes[placesOf(bytes, "blk.1.ffn_up.weight")[0]! + "blk.1.ffn_up.weight".length + 4 + 16] = 20,
      /blk\.1\.ffn_up\.weight is of type IQ4_NL; only .* can be read. Convert the model/,
    ],
    [
      (bytes) => placesOf(bytes, "tokenizer.ggml.tokens").forEach((at) => bytes[at] = 88),
      /it holds no tokenizer/,
    ],
  ];
  for (const [change, reason] of cases) {
    await withChanged(change, async (path) => {
      const found = await inspectFile(path);
      assert.ok(found.kind === "model");
      assert.match(found.not_trainable!, reason);
      assert.deepEqual([found.lora_targets, found.lora_parameters], [[], 0]);
      const { code, out } = await runSvc("inspect", path);
      assert.equal(code, 0);
      assert.match(out, /\nLoRA targets {2,}none: this model cannot be trained\. Cannot /);
      assert.doesNotMatch(out, /q_proj|parameters at rank/);
    });
  }
});

Deno.test("the model's template is probed", async () => {
  const found = await inspectFile(F16);
  assert.ok(found.kind === "model" && found.template_probe);
  const { prefix_stable, tool_call_format, tool_call_round_trip, turn_end, problems } = found.template_probe;
  assert.deepEqual(
    [found.chat_template, prefix_stable, tool_call_format, tool_call_round_trip, turn_end, problems],
    [true, true, "hermes", true, "<|im_end|>", []],
  );
});

Deno.test("an adapter's rank, scale and targets are reported", async () => {
  const found = await inspectFile(ADAPTER);
  assert.ok(found.kind === "adapter");
  assert.deepEqual([found.rank, found.alpha, found.layers, found.lora_targets], [8, 16, 4, TARGETS]);
  assert.equal(found.parameters, 4 * 8 * SIDES);
});

Deno.test("the command prints every file that it is given", async () => {
  const { code, out } = await runSvc("inspect", "--model", F16, "--adapter", ADAPTER);
  assert.equal(code, 0);
  assert.match(out, /\nparameters {8}3,410,688\n/);
  assert.match(out, /\nrank {10}8, alpha 16\n/);
  const json = await runSvc("inspect", ADAPTER, "--json");
  assert.equal(JSON.parse(json.out).rank, 8);
});

Deno.test("a file that is not a model is refused by name", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const refusal = async (path: string) => {
      const { code, out, err } = await runSvc("inspect", path);
      assert.deepEqual([code, out], [2, ""]);
      assert.ok(err.startsWith(`svc: Cannot read ${path}: `), err);
      return err;
    };
    const bytes = await Deno.readFile(ADAPTER);
    await Deno.writeFile(`${folder}/cut.gguf`, bytes.subarray(0, bytes.length - 1));
    assert.match(await refusal(`${folder}/cut.gguf`), /truncated/);
    await Deno.writeTextFile(`${folder}/text.gguf`, "not a model");
    assert.match(await refusal(`${folder}/text.gguf`), /not a GGUF file/);
    await refusal(`${folder}/none.gguf`);
    await refusal(folder);
    assert.equal((await runSvc("inspect")).code, 2);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("a false number of layers costs no time", async () => {
  const path = await Deno.makeTempFile({ suffix: ".gguf" });
  try {
    const metadata: GgufMetadata = new Map([
      ["general.architecture", { type: "string", value: "qwen3" }],
      ["qwen3.block_count", { type: "uint32", value: 4_294_967_295 }],
    ]);
    await writeGguf(path, { metadata, tensors: [] });
    const found = await inspectFile(path);
    assert.ok(found.kind === "model");
    assert.deepEqual([found.layers, found.lora_targets, found.chat_template], [4_294_967_295, [], false]);
    assert.match(found.not_trainable!, /qwen3\.embedding_length is missing/);
  } finally {
    await Deno.remove(path);
  }
});
