import { deepEqual, ok } from "node:assert/strict";
import type { LoraTarget } from "../../core/lora_targets.ts";
import type { Gpu } from "../../kernels/device.ts";
import {
  expectClose,
  gpuTest,
  lacksF16,
  randomNormal,
  randomWeight,
  uploadWeight,
} from "../../kernels/gpu_testing.ts";
import type { Grid, Kernel, Operands, Params } from "../../kernels/kernel.ts";
import { attentionPaged } from "../../kernels/kv_pages/attention_paged.ts";
import { kvPlaces, kvWrite } from "../../kernels/kv_pages/kv_pages.ts";
import { withEmulatedMatrices } from "../../kernels/matmul/emulated_matrices_testing.ts";
import { Recorder } from "../../kernels/recorder.ts";
import { gatherRows } from "../../kernels/rows/rows.ts";
import { ropeTable } from "../../kernels/rope/rope.ts";
import { Allocator, type Tensor, view } from "../../kernels/tensor.ts";
import { deviceOptions } from "../../kernels/variant.ts";
import type { WeightTypeName } from "../../kernels/weights/table.ts";
import { Activations } from "./activations.ts";
import { adapterLayout, DeviceAdapter } from "./device_adapter.ts";
import { TEST_LAYER, testShape } from "./model_testing.ts";
import { type LayerShape, linearShape, type ModelShape } from "./model_shape.ts";
import { type AttentionTensors, forward, forwardToLastLayer, lastLayer, type Model } from "./transformer.ts";
import type { LayerWeights, ModelWeights } from "./weights.ts";

/** The same bits. */
const EXACT = { relative: 0, absolute: 0 };
const ROWS = 69, POSITIONS = 96, PAGES = 8;
/** Rows of passes after each other: many, a few and one. */
const CUT: readonly [from: number, to: number][] = [[0, ROWS - 9], [ROWS - 9, ROWS - 1], [ROWS - 1, ROWS]];
const TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"] as const;

/** Remembers the names of dispatched kernels. */
class NamingRecorder extends Recorder {
  readonly names: string[] = [];
  override dispatch<K extends Kernel>(...given: [K, Params<K>, Operands<K>, Grid]): void {
    this.names.push(given[0].name);
    super.dispatch(...given);
  }
}

interface Case {
  name: string;
  layer: Partial<LayerShape>;
  /** By projection; f16 for the others. */
  types?: Partial<Record<LoraTarget, WeightTypeName>>;
  lora: { rank: number; targets: readonly LoraTarget[] } | null;
  kv: "f32" | "f16";
  compute: "f32" | "f16";
  /** Kernels of a layer after the first. */
  kernels: string[];
  /** On software adapters, which projections of a layer share a dispatch. */
  twins: ("k, v" | "gate, up")[];
  /** Products with f32 weights of a layer with one row there: A where products do not multiply with it, and q in a case. */
  f32_products: number;
}

const ATTENTION = "attention_paged";
const FUSED = [
  ...["matmul_segments", "fused_heads", ATTENTION, "matmul_segments", "fused_rows"],
  ...["matmul_segments", "fused_gate", "matmul_segments", "fused_rows"],
];

const CASES: readonly Case[] = [
  {
    name: "norms of heads, an adapter of all projections",
    layer: {},
    lora: { rank: 16, targets: TARGETS },
    ...{ kv: "f32", compute: "f32", kernels: FUSED },
    twins: ["k, v", "gate, up"],
    f32_products: 0,
  },
  {
    name: "biases, types of a K mixture, an adapter of some projections, half precision",
    layer: { qk_norm: false, biases: ["q_proj", "k_proj", "v_proj", "o_proj"] },
    types: {
      q_proj: "q4_k",
      k_proj: "q4_k",
      v_proj: "q6_k",
      o_proj: "q8_0",
      gate_proj: "q4_k",
      down_proj: "q6_k",
    },
    lora: { rank: 6, targets: ["v_proj", "up_proj", "down_proj"] },
    ...{ kv: "f16", compute: "f16", kernels: FUSED },
    twins: [],
    f32_products: 0,
  },
  {
    name: "adjacent pairs, no adapter",
    layer: { qk_norm: false, rotation: { base: 10_000, pairing: "adjacent", factors: null } },
    types: { q_proj: "f32", up_proj: "bf16" },
    lora: null,
    ...{ kv: "f16", compute: "f32", kernels: FUSED },
    twins: ["k, v"],
    f32_products: 1,
  },
  {
    name: "no position embedding, norms and biases, another activation, a high rank",
    layer: { rotation: null, biases: ["k_proj", "down_proj"], activation: "gelu_tanh" },
    lora: { rank: 68, targets: ["q_proj", "k_proj", "gate_proj", "o_proj"] },
    ...{ kv: "f32", compute: "f16", kernels: FUSED },
    twins: [],
    f32_products: 3,
  },
  {
    name: "norms of outputs, and biases of the gate and what it multiplies, are operations of their own",
    layer: { norms_after: true, biases: ["gate_proj", "up_proj"] },
    lora: { rank: 4, targets: ["q_proj", "o_proj"] },
    ...{ kv: "f32", compute: "f32" },
    twins: ["k, v"],
    f32_products: 0,
    kernels: [
      ...["rms_norm_forward_tiles", "matmul_segments", "fused_heads", ATTENTION],
      ...["matmul_nt", "matmul_chunks", "matmul_nt", "matmul_chunks", "rms_norm_forward_tiles"],
      ...["rms_norm_forward_tiles", "matmul_nt", "matmul_chunks", "add_bias", "matmul_nt", "matmul_chunks"],
      ...["add_bias", "gated_activation_forward", "matmul_nt", "matmul_chunks", "rms_norm_forward_tiles"],
    ],
  },
];

/** A vector of seeded normal values around `offset`. */
const vector = (allocator: Allocator, seed: number, length: number, offset: number): Tensor =>
  allocator.upload("test", [length], Float32Array.from(randomNormal(seed, length, offset)));

/** Norms and biases of queries, keys and values in one tensor, as models are loaded. */
function headVectors(allocator: Allocator, shape: ModelShape, layer: LayerShape) {
  const step = 512, whole = vector(allocator, 9, 5 * step, 0.5);
  const at = (i: number, length: number) => view(whole, [length], i * step);
  const bias = (target: LoraTarget, i: number) =>
    layer.biases.includes(target) ? { [target]: at(i, linearShape(shape, target).out_width) } : {};
  return {
    q_norm: layer.qk_norm ? at(0, shape.head_width) : null,
    k_norm: layer.qk_norm ? at(1, shape.head_width) : null,
    biases: { ...bias("q_proj", 2), ...bias("k_proj", 3), ...bias("v_proj", 4) },
  };
}

function layerWeights(allocator: Allocator, shape: ModelShape, { layer, types = {} }: Case): LayerWeights {
  const full = { ...TEST_LAYER, ...layer }, heads = headVectors(allocator, shape, full);
  const linears = Object.fromEntries(TARGETS.map((target, i) => {
    const { in_width, out_width } = linearShape(shape, target), type = types[target] ?? "f16";
    const { bytes } = randomWeight(20 + i, type, in_width * out_width);
    return [target, uploadWeight(allocator, { type, shape: [out_width, in_width] }, bytes)];
  }));
  const others = full.biases.filter((target) => !["q_proj", "k_proj", "v_proj"].includes(target));
  const added = others.map((target, i) =>
    [target, vector(allocator, 30 + i, linearShape(shape, target).out_width, 0)] as const
  );
  const norm = (seed: number) => vector(allocator, seed, shape.width, 1);
  return {
    ...{ attn_norm: norm(2), ffn_norm: norm(3), q_norm: heads.q_norm, k_norm: heads.k_norm },
    attn_out_norm: full.norms_after ? norm(4) : null,
    ffn_out_norm: full.norms_after ? norm(5) : null,
    biases: { ...heads.biases, ...Object.fromEntries(added) },
    linears: linears as LayerWeights["linears"],
  };
}

/** A model of two equal layers whose depths have several chunks. */
function modelOf(gpu: Gpu, allocator: Allocator, given: Case): Model & { recorder: NamingRecorder } {
  const layers = [given.layer, given.layer].map((layer) => ({ ...TEST_LAYER, ...layer }));
  const shape = testShape(2, {
    ...{ width: 512, heads: 12, kv_heads: 2, head_width: 64, feed_forward: 1024, vocabulary: 64, layers },
  });
  const { bytes } = randomWeight(1, "f16", 64 * shape.width);
  const embedding = uploadWeight(allocator, { type: "f16", shape: [64, shape.width] }, bytes);
  const weights: ModelWeights = {
    embedding,
    layers: layers.map(() => layerWeights(allocator, shape, given)),
    ...{ output_norm: vector(allocator, 6, shape.width, 1), output: embedding },
  };
  const rotations = layers.map(({ rotation }) => {
    if (!rotation) return null;
    const table = ropeTable(shape.head_width, { base: rotation.base }, POSITIONS);
    const upload = (values: Float32Array) => allocator.upload("test", table.shape, values);
    return { cosines: upload(table.cosines), sines: upload(table.sines), pairing: rotation.pairing };
  });
  const recorder = new NamingRecorder(gpu, allocator);
  return { recorder, shape, weights, rotations, positions: POSITIONS, compute: given.compute };
}

function adapterOf(allocator: Allocator, { shape }: Model, { lora }: Case): DeviceAdapter | null {
  if (!lora) return null;
  const layout = adapterLayout(shape, { rank: lora.rank, alpha: 2 * lora.rank, targets: [...lora.targets] });
  const adapter = new DeviceAdapter(allocator, layout);
  adapter.write(Float32Array.from(randomNormal(40, layout.elements), (value) => value / 16));
  return adapter;
}

/** How hidden states are computed: with what a backward pass needs, or without; of all rows, or of each part's last one. */
interface Way {
  kept: "activations" | "nothing";
  parts: readonly [from: number, to: number][];
  last_only?: boolean;
}

/**
 * The hidden states of rows `from` to `to` of one sequence after the last layer, over pages that it fills; zeros for rows
 * that are not computed.
 */
async function hiddenStates(
  allocator: Allocator,
  { model, adapter, given }: {
    model: Model & { recorder: NamingRecorder };
    adapter: DeviceAdapter | null;
    given: Case;
  },
  { kept, parts, last_only = false }: Way,
): Promise<{ hidden: Float32Array; names: string[] }> {
  const { recorder, shape } = model, scope = allocator.scope();
  const { heads, kv_heads, head_width, width } = shape;
  const padded_rank = adapter?.layout.padded_rank ?? 4;
  const activations = new Activations(scope, shape, { rows: ROWS, kept, padded_rank, component: "test" });
  const caches = shape.layers.map(() => {
    const page = () => scope.create("test", [PAGES, kv_heads, 32, head_width], given.kv);
    return { k_pages: page(), v_pages: page() };
  });
  const words = (values: number[], ...dims: number[]) => scope.upload("test", dims, Uint32Array.from(values));
  // Pages in another order than that of the positions; slot 1 of 2.
  const page_table = words([0, 0, 0, 5, 2, 7], 2, 3), hidden = new Float32Array(ROWS * width);
  const passOf = (range: number[]) => {
    const rows = range.length, places = scope.create("test", [rows, 2], "u32");
    const positions = words(range, rows), slots = words(range.map(() => 1), rows);
    const ids = words(range.map((i) => (7 * i + 3) % 64), rows);
    kvPlaces(recorder, { page_table, slots, positions, places }, kv_heads);
    const state = scope.create("test", [rows, heads, 2]);
    const paged = (layer: number) => ({ page_table, slots, positions, ...caches[layer]! });
    const write = (layer: number, tensors: { k: Tensor; v: Tensor }) =>
      kvWrite(recorder, { ...tensors, ...paged(layer) });
    const attend = (layer: number, { q, k, v, o, rules }: AttentionTensors) => {
      if (kept !== "nothing") write(layer, { k, v });
      attentionPaged(recorder, { q, o, state, ...paged(layer) }, rules);
    };
    const pages = { places, layer: (layer: number) => caches[layer]!, write };
    const own = { pages: kept === "nothing" ? pages : undefined, attend };
    return { model, adapter, rows, ids, positions, activations, ...own };
  };
  const lastRow = (range: number[]) => {
    const x = forwardToLastLayer(passOf(range)), last = scope.create("test", [1, width]);
    gatherRows(recorder, { x, index: words([range.length - 1], 1), y: last });
    return lastLayer(passOf(range.slice(-1)), last);
  };
  let names: string[] = [];
  for (const [from, to] of parts) {
    const range = Array.from({ length: to - from }, (_, i) => from + i), start = recorder.names.length;
    const out = last_only ? lastRow(range) : forward(passOf(range));
    names = recorder.names.slice(start);
    const [bytes] = await recorder.submitAndRead([out]), rows = last_only ? 1 : range.length;
    hidden.set(new Float32Array(bytes!).subarray(0, rows * width), (to - rows) * width);
  }
  scope.destroy();
  recorder.forgetAll();
  return { hidden, names };
}

/** The names of kernels without types and forms; attention may take several dispatches. */
const kinds = (names: readonly string[]) =>
  names.map((name) => name.replace(/^(matmul_(?:segments|n[nt])|attention_paged).*/, "$1"))
    .filter((name, i, all) => name !== ATTENTION || all[i - 1] !== ATTENTION);

/** Those of software adapters, and of GPUs that multiply scalars or, with operands in f16, matrices. */
const FORMS = ["lanes", "tiles", "matrices"] as const;

/**
 * What a form fuses of each case: all of a layer on GPUs; on software adapters what follows the projections, and pairs of them.
 */
for (const given of CASES) {
  for (const form of given.compute === "f16" ? FORMS : FORMS.slice(0, 2)) {
    gpuTest(
      `what is fused for few rows has the bits of the trainer's operations (${form}): ${given.name}`,
      async (device) => {
        // The forms of another device, on any one.
        const gpu: Gpu = form === "matrices"
          ? withEmulatedMatrices(device)
          : { ...device, facts: { ...device.facts, software: form === "lanes" } };
        const allocator = new Allocator(gpu.device), model = modelOf(gpu, allocator, given);
        const parts = { model, adapter: adapterOf(allocator, model, given), given };
        try {
          gpu.device.pushErrorScope("validation");
          const plain = await hiddenStates(allocator, parts, { kept: "activations", parts: [[0, ROWS]] });
          const fused = await hiddenStates(allocator, parts, { kept: "nothing", parts: [[0, ROWS]] });
          const failed = await gpu.device.popErrorScope();
          ok(!failed, failed?.message);
          ok(plain.hidden.every(Number.isFinite) && plain.hidden.some((value) => value !== 0));
          ok(!plain.names.some((name) => name.startsWith("fused")));
          expectClose(fused.hidden, plain.hidden, EXACT, "hidden states");
          // A row has the same bits alone and among others.
          const alone = await hiddenStates(allocator, parts, { kept: "nothing", parts: CUT });
          expectClose(alone.hidden, plain.hidden, EXACT, "rows alone");
          // And where the others end before the last layer.
          const last = await hiddenStates(allocator, parts, { kept: "nothing", parts: CUT, last_only: true });
          for (const row of CUT.map(([, to]) => to - 1)) {
            const of_row = ({ hidden }: typeof last) =>
              hidden.subarray(row * model.shape.width, (row + 1) * model.shape.width);
            expectClose(of_row(last), of_row(plain), EXACT, `row ${row} alone in the last layer`);
          }
          if (form !== "lanes") {
            const products = [...plain.names, ...fused.names].filter((name) => /^matmul_(n|seg)/.test(name));
            ok(products.every((name) => name.endsWith(`_${form}`)));
            return deepEqual(kinds(fused.names).slice(-given.kernels.length), given.kernels);
          }
          const gates = given.twins.includes("gate, up") ? ["gated_activation_forward"] : [];
          const own = ["rope", "rope_adjacent", "kv_write", ...gates].filter((name) =>
            fused.names.includes(name)
          );
          deepEqual(own, [], "has no dispatch of its own");
          const count = ({ names }: typeof fused, start: string) =>
            names.filter((name) => name.startsWith(start)).length / 2;
          for (const pass of [fused, alone]) deepEqual(count(pass, "matmul_twin"), given.twins.length);
          deepEqual(count(alone, "matmul_nt_f32"), given.f32_products);
          // Products of one row normalise it, unless x · Aᵀ has a dispatch.
          if (given === CASES[0] && deviceOptions(gpu).lanes > 1) deepEqual(count(alone, "rms_norm"), 0);
          // In each of two layers: one for each of q, k and v where there are many rows; one for the last row.
          const heads = ({ names }: typeof fused) =>
            names.filter((name) => name.startsWith("fused_heads_lanes")).length;
          deepEqual([heads(fused), heads(alone)], [2 * 3, 2]);
        } finally {
          model.recorder.destroy();
          allocator.destroy();
        }
      },
      given.compute === "f16" ? lacksF16 : undefined,
    );
  }
}
