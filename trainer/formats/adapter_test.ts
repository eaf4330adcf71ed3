import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { partialPath } from "../../core/files.ts";
import { openPartial } from "../../core/partial.ts";
import { GGUF_NAMES, LORA_TARGETS, peftModule, targetOfGgufName } from "../../core/lora_targets.ts";
import { fixturePath } from "../../tests/fixture.ts";
import { withFolder } from "../../tests/folder.ts";
import { readAdapter, writeAdapter } from "./adapter.ts";
import { loraDifference, loraKey, type LoraTensors } from "./lora.ts";
import { openGguf } from "./gguf.ts";
import { besidePeft, isWrittenPeft, permuteRows, readPeft, writePeft } from "./peft.ts";

const GOLDEN = "models/tiny-agent/golden-lora";
const STRICT = { sanitizeOps: true, sanitizeResources: true };

async function goldenAdapter(): Promise<LoraTensors> {
  return await readAdapter(await fixturePath(`${GOLDEN}/golden-lora.gguf`));
}

/** PEFT's own files of the golden adapter, in a folder. */
async function copyGolden(folder: string): Promise<void> {
  for (const name of ["adapter_config.json", "adapter_model.safetensors"]) {
    await Deno.copyFile(await fixturePath(`${GOLDEN}/${name}`), `${folder}/${name}`);
  }
}

async function namesIn(directory: string): Promise<string[]> {
  return (await Array.fromAsync(Deno.readDir(directory))).map(({ name }) => name).sort();
}

/** The adapter with one value changed. */
function changed(lora: LoraTensors): LoraTensors {
  const tensors = new Map(lora.tensors), key = loraKey(1, "up_proj"), pair = tensors.get(key)!;
  tensors.set(key, { ...pair, b: pair.b.map((value, i) => i === 5 ? value + 1 : value) });
  return { ...lora, tensors };
}

Deno.test({
  name: "the golden adapter holds the same values as GGUF and as PEFT folder",
  ...STRICT,
  async fn() {
    const lora = await goldenAdapter();
    assert.equal(lora.architecture, "qwen3");
    assert.deepEqual([lora.rank, lora.alpha, lora.layers], [8, 16, 4]);
    assert.deepEqual(lora.targets, [...LORA_TARGETS]);
    assert.equal(lora.tensors.size, 28);
    const { in: width, out, a, b } = lora.tensors.get(loraKey(3, "down_proj"))!;
    assert.deepEqual([width, out, a.length, b.length], [512, 256, 8 * 512, 256 * 8]);
    await withFolder(async (folder) => {
      await copyGolden(folder);
      assert.equal(loraDifference(lora, await readPeft(folder, "qwen3")), null);
    });
  },
});

Deno.test("names of projections in GGUF and PEFT belong together", () => {
  assert.deepEqual(LORA_TARGETS.map((target) => GGUF_NAMES[target]), [
    "attn_q",
    "attn_k",
    "attn_v",
    "attn_output",
    "ffn_gate",
    "ffn_up",
    "ffn_down",
  ]);
  for (const target of LORA_TARGETS) assert.equal(targetOfGgufName(GGUF_NAMES[target]), target);
  assert.equal(targetOfGgufName("token_embd"), null);
  assert.equal(peftModule("o_proj"), "self_attn.o_proj");
  assert.equal(peftModule("gate_proj"), "mlp.gate_proj");
});

Deno.test({
  name: "an adapter is read as it was written, with any subset of targets",
  ...STRICT,
  fn: () =>
    withFolder(async (directory) => {
      const golden = await goldenAdapter();
      const targets = ["k_proj", "down_proj"] as const;
      const kept = [...golden.tensors].filter(([key]) => targets.some((target) => key.endsWith(target)));
      const subset = { ...golden, targets: [...targets], tensors: new Map(kept) };
      for (const lora of [golden, subset]) {
        await writeAdapter(`${directory}/a.gguf`, lora);
        assert.equal(loraDifference(lora, await readAdapter(`${directory}/a.gguf`)), null);
        await writePeft(`${directory}/peft`, lora, { base_model: "tiny-agent" });
        assert.equal(loraDifference(lora, await readPeft(`${directory}/peft`, "qwen3")), null);
        assert.deepEqual(await namesIn(directory), ["a.gguf", "peft"]);
        assert.deepEqual(await namesIn(`${directory}/peft`), [
          "adapter_config.json",
          "adapter_model.safetensors",
        ]);
      }
    }),
});

Deno.test({
  name: "the written file has the golden file's bytes and PEFT configuration",
  ...STRICT,
  fn: () =>
    withFolder(async (directory) => {
      const lora = await goldenAdapter();
      await writeAdapter(`${directory}/a.gguf`, lora, "tiny-agent-golden-lora");
      const golden = await Deno.readFile(await fixturePath(`${GOLDEN}/golden-lora.gguf`));
      assert.ok(Buffer.from(golden).equals(await Deno.readFile(`${directory}/a.gguf`)));
      await writePeft(`${directory}/peft`, lora, { base_model: "tiny-agent" });
      const config = async (folder: string) =>
        JSON.parse(await Deno.readTextFile(`${folder}/adapter_config.json`));
      await copyGolden(directory);
      assert.deepEqual(await config(`${directory}/peft`), await config(directory));
    }),
});

Deno.test({
  name: "a write that fails leaves the old file and nothing else",
  ...STRICT,
  fn: () =>
    withFolder(async (directory) => {
      const lora = await goldenAdapter(), path = `${directory}/a.gguf`;
      await writeAdapter(path, lora);
      // A folder in the way of the partial file, and a file in the way of the folder.
      await Deno.mkdir(`${partialPath(path)}/in_the_way`, { recursive: true });
      await assert.rejects(writeAdapter(path, changed(lora)), /Cannot write/);
      assert.deepEqual(await namesIn(directory), [".svc-partial-a.gguf", "a.gguf"]);
      assert.equal(loraDifference(lora, await readAdapter(path)), null);
      await Deno.writeTextFile(`${directory}/file`, "");
      await assert.rejects(writeAdapter(`${directory}/file/c.gguf`, lora));
      assert.deepEqual(await namesIn(directory), [".svc-partial-a.gguf", "a.gguf", "file"]);
    }),
});

Deno.test({
  name: "a PEFT folder's temporary names cannot collide with a user's",
  ...STRICT,
  fn: () =>
    withFolder(async (directory) => {
      const lora = await goldenAdapter(), folder = `${directory}/peft`;
      const mine = ["old", "partial", "replaced"].map((suffix) => `${folder}.${suffix}/letter.txt`);
      for (const path of mine) {
        await Deno.mkdir(path.slice(0, path.lastIndexOf("/")));
        await Deno.writeTextFile(path, "mine");
      }
      for (const adapter of [lora, changed(lora)]) {
        await writePeft(folder, adapter, { base_model: "tiny-agent" });
      }
      for (const path of mine) assert.equal(await Deno.readTextFile(path), "mine");
    }),
});

Deno.test({
  name: "a PEFT folder that cannot be written leaves the old folder",
  ...STRICT,
  fn: () =>
    withFolder(async (directory) => {
      const lora = await goldenAdapter(), folder = `${directory}/peft`;
      await writePeft(folder, lora, { base_model: "tiny-agent" });
      assert.ok(await isWrittenPeft(folder));
      assert.ok(!await isWrittenPeft(directory));
      // A name that becomes too long with the suffix of a partial file.
      const deep = `${directory}/${"x".repeat(250)}`;
      await assert.rejects(writePeft(deep, lora, { base_model: "tiny-agent" }));
      const wrong = { base_model: "tiny-agent", permuted: { q_proj: 7 } };
      await assert.rejects(writePeft(folder, lora, wrong), /are of 7 heads of even width/);
      assert.deepEqual(await namesIn(directory), ["peft"]);
      assert.equal(loraDifference(lora, await readPeft(folder, "qwen3")), null);
      await writePeft(folder, changed(lora), { base_model: "tiny-agent" });
      assert.equal(loraDifference(changed(lora), await readPeft(folder, "qwen3")), null);
    }),
});

Deno.test({
  name: "a PEFT folder that another process is writing is left to it",
  ...STRICT,
  fn: () =>
    withFolder(async (directory) => {
      const lora = await goldenAdapter(), folder = `${directory}/peft`, [partial] = besidePeft(folder);
      const other = await openPartial(partial, { kind: "folder", final: folder });
      await Deno.writeTextFile(`${partial}/adapter_config.json`, "theirs");
      await assert.rejects(writePeft(folder, lora, { base_model: "tiny-agent" }), {
        code: "conflict",
        message: new RegExp(`^Cannot write ${folder}: it is being written`),
      });
      assert.equal(await Deno.readTextFile(`${partial}/adapter_config.json`), "theirs");
      other.close();
      await writePeft(folder, lora, { base_model: "tiny-agent" });
      assert.deepEqual(await namesIn(directory), ["peft"]);
    }),
});

Deno.test("a model is not an adapter", async () => {
  const path = await fixturePath("models/tiny-agent-f16.gguf");
  await assert.rejects(readAdapter(path), { code: "format_invalid", message: /not a LoRA adapter/ });
});

Deno.test({
  name: "an adapter with a missing, a doubled or an unknown tensor is refused",
  ...STRICT,
  fn: () =>
    withFolder(async (directory) => {
      const golden = await Deno.readFile(await fixturePath(`${GOLDEN}/golden-lora.gguf`));
      const rename = async (from: string, to: string) => {
        assert.equal(from.length, to.length);
        const bytes = golden.slice(), text = new TextDecoder("latin1").decode(bytes.subarray(0, 4000));
        const at = text.indexOf(from);
        assert.ok(at > 0);
        bytes.set(new TextEncoder().encode(to), at);
        await Deno.writeFile(`${directory}/a.gguf`, bytes);
        return await readAdapter(`${directory}/a.gguf`);
      };
      const refused = (message: RegExp) => ({ code: "format_invalid", message });
      const name = "blk.1.attn_k.weight.lora_a";
      await assert.rejects(rename(name, "blk.9.attn_k.weight.lora_a"), refused(/targets|missing/));
      await assert.rejects(
        rename(name, "blk.1.attn_z.weight.lora_a"),
        refused(/attn_z.*not one of a supported/),
      );
      await assert.rejects(rename(name, "blk.1.attn_k.weight.lora_c"), refused(/lora_c/));
      await assert.rejects(rename(name, "blk.01.attn_k.weigh.lora_a"), refused(/weigh.lora_a/));
      await assert.rejects(rename("general.type\x08", "general.tipe\x08"), refused(/not a LoRA adapter/));
    }),
});

Deno.test("rows of q and k of a llama model become those of the same model as Hugging Face has them", async () => {
  const [llama, qwen2] = await Promise.all(
    ["llama", "qwen2"].map(async (name) =>
      await openGguf(await fixturePath(`models/tinystories-656k-${name}-f16.gguf`))
    ),
  );
  try {
    // The same weights in both files: qwen2's rows are in Hugging Face's order.
    for (const [part, count] of [["attn_q", "head_count"], ["attn_k", "head_count_kv"]] as const) {
      const name = `blk.1.${part}.weight`, heads = llama!.getUint(`llama.attention.${count}`);
      const [values, expected] = [await llama!.readFloats(name), await qwen2!.readFloats(name)];
      const options = { rows: llama!.tensor(name).shape[0]!, heads };
      assert.notDeepEqual(values, expected);
      assert.deepEqual(permuteRows(values, { ...options, to: "peft" }), expected);
      assert.deepEqual(permuteRows(expected, { ...options, to: "gguf" }), values);
    }
  } finally {
    llama!.close();
    qwen2!.close();
  }
});

Deno.test({
  name: "a PEFT folder of permuted heads has the rows of B in Hugging Face's order, and A as it is",
  ...STRICT,
  async fn() {
    const lora = await goldenAdapter(), permuted = { q_proj: 8, k_proj: 2 };
    await withFolder(async (directory) => {
      await writePeft(`${directory}/peft`, lora, { base_model: "tiny-agent", permuted });
      assert.equal(loraDifference(lora, await readPeft(`${directory}/peft`, "qwen3", permuted)), null);
      const plain = await readPeft(`${directory}/peft`, "qwen3");
      for (const [key, pair] of plain.tensors) {
        const { a, b, out: rows } = lora.tensors.get(key)!;
        const heads = key.endsWith("q_proj") ? 8 : key.endsWith("k_proj") ? 2 : null;
        assert.deepEqual(pair.a, a);
        assert.deepEqual(pair.b, heads === null ? b : permuteRows(b, { rows, heads, to: "peft" }), key);
      }
    });
  },
});
