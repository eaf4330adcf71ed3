import assert from "node:assert/strict";
import { ManualClock } from "../../core/clock_fake.ts";
import { withFolder } from "../../tests/folder.ts";
import { assumedGpu } from "../assumed_gpu.ts";
import { countingGpu } from "../counting_gpu.ts";
import { type Gpu, SUBGROUP_MATRIX } from "../device.ts";
import { gpuTest, lacksF16 } from "../gpu_testing.ts";
import { layoutClass, type LayoutTable, type ProductKind } from "../layout_table.ts";
import {
  chooseLayout,
  chooseSegmentsTile,
  chunkLength,
  layoutName,
  partialBytes,
  TILES,
} from "../matmul/matmul_layout.ts";
import { matmul } from "../matmul/matmul.ts";
import { matmulSegments } from "../matmul/matmul_segments.ts";
import { type Recorder, SCRATCH_BYTES } from "../recorder.ts";
import { ceilDiv } from "../shape.ts";
import type { Tensor } from "../tensor.ts";
import type { Weight } from "../weights/weight.ts";
import {
  BUDGET_MS,
  deviceClasses,
  deviceMeter,
  layoutChoices,
  type LayoutMeter,
  layoutOf,
  tuneLayouts,
} from "./tune_layouts.ts";
import { readTuning, tunedGpu, tuningPath, tuningText } from "./tuned_gpu.ts";

const CARD = countingGpu(assumedGpu());
const NT: ProductKind = { product: "nt", compute: "f16" },
  NN: ProductKind = { product: "nn", compute: "f32" },
  SEGMENTS: ProductKind = { product: "segments", compute: "f16" };

const withFeatures = (...features: string[]) => ({ ...CARD, facts: { ...CARD.facts, features } });

/** A meter whose products take what `ms` says, and move the clock by it. */
function fakeMeter(
  clock: ManualClock,
  ms: (name: string, kind: ProductKind) => number,
  isWrong: (name: string, kind: ProductKind) => boolean = () => false,
) {
  const times: { name: string; rows: number; kind: ProductKind }[] = [];
  const meter: LayoutMeter = {
    bits: (kind, layout) => Promise.resolve(Uint32Array.of(1, isWrong(layoutName(layout), kind) ? 3 : 2)),
    async time({ kind, rows }, layout) {
      const name = layoutName(layout), taken = ms(name, kind);
      times.push({ name, rows, kind });
      await clock.advance(taken);
      return taken;
    },
    close() {},
  };
  return { meter, times };
}

/** Every class takes the small tile with its chunks apart in half of the time of all others. */
const smallIsBest = (name: string) => name === "16 × 64, split" ? 0.5 : 1;
const [, MIDDLE, SMALL] = Object.keys(TILES).keys(), SMALL_SPLIT = { layout: SMALL!, split: true };
const nameOf = (
  layouts: LayoutTable,
  size: Parameters<typeof chooseLayout>[1],
  kind?: ProductKind,
  gpu: Gpu = CARD,
) => {
  const given = kind && { kind: { orientation: kind.product as "nt" | "nn", compute: kind.compute } };
  return layoutName(chooseLayout({ ...gpu, layouts }, size, given));
};
/** A recorder of a device with a table, and the workgroups along the first axis of what it records. */
function recordedGrids(layouts: LayoutTable) {
  const grids: number[] = [], buffer = {} as GPUBuffer;
  const scratch: Tensor = { buffer, offset_bytes: 0, shape: [SCRATCH_BYTES / 4], dtype: "f32" };
  const dispatch = (...[, , , [groups]]: Parameters<Recorder["dispatch"]>) => grids.push(groups);
  const recorder = { gpu: { ...CARD, layouts }, scratch, empty: scratch, dispatch } as unknown as Recorder;
  return { recorder, grids };
}

const kindsOf = (table: LayoutTable) =>
  [...new Set(Object.keys(table).map((name) => name.split(" ").slice(0, -1).join(" ")))].sort();

Deno.test("the layout that is clearly faster is chosen, and what is as fast as the usual one is not", async () => {
  const clock = new ManualClock();
  const table = await tuneLayouts(CARD, fakeMeter(clock, smallIsBest).meter, clock);
  assert.deepEqual(
    new Set(Object.values(table).map((entry) => JSON.stringify(entry))),
    new Set([JSON.stringify(SMALL_SPLIT)]),
  );
  // Of many rows no product splits, and where the small tile is the usual one there is nothing to choose.
  const expected = deviceClasses(CARD).filter(({ name, kind, rows, columns, depth }) => {
    const layouts = { [name]: SMALL_SPLIT };
    if (kind.product === "segments") {
      return chooseSegmentsTile(CARD, { rows, depth, compute: kind.compute }, columns) !== TILES.small;
    }
    const size = { rows, columns: columns[0]!, depth };
    return nameOf(layouts, size, kind) === "16 × 64, split" && nameOf({}, size) !== "16 × 64, split";
  });
  assert.deepEqual(Object.keys(table), expected.map(({ name }) => name));
  assert.deepEqual(kindsOf(table), ["nn f32", "nt f16", "segments f16"]);
  const equal = await tuneLayouts(
    CARD,
    fakeMeter(clock, (name) => name === "64 × 64" ? 0.96 : 1).meter,
    clock,
  );
  assert.deepEqual(equal, {});
});

Deno.test("each kind of products is measured by itself, with the operands that the device has", async () => {
  const clock = new ManualClock();
  const tuned = (gpu: Gpu, ...fast: ProductKind["product"][]) => {
    const { meter } = fakeMeter(clock, (name, { product }) => fast.includes(product) ? smallIsBest(name) : 1);
    return tuneLayouts(gpu, meter, clock);
  };
  for (const product of ["nt", "nn", "segments"] as const) {
    const names = kindsOf(await tuned(CARD, product));
    assert.deepEqual(names, [`${product} ${product === "nn" ? "f32" : "f16"}`]);
  }
  const all = await tuned(withFeatures("subgroups"), "nt", "nn", "segments");
  assert.deepEqual(kindsOf(all), ["nn f32", "nt f32", "segments f32"]);
  // There all products of weights are of subgroup matrices: nothing is measured, or stored.
  const matrices = withFeatures("shader-f16", SUBGROUP_MATRIX);
  assert.deepEqual(deviceClasses(matrices), []);
  assert.equal(await tunedGpu(matrices, "/nowhere", { meter: () => assert.fail("opened") }), matrices);
  assert.match(await tuningText("/nowhere", matrices, true), /subgroup matrices/);
});

Deno.test("a product takes the layout of its class, and the usual one where it has none or pads much", () => {
  const table = {
    ...{ "nt f16 64×1024×4096": { layout: MIDDLE!, split: true }, "nt f16 16×1024×1024": SMALL_SPLIT },
    ...{ "nt f16 4096×16384×1024": { layout: MIDDLE!, split: false } },
    ...{ "nn f32 64×1024×4096": { layout: SMALL!, split: false } },
    ...{ "nt f16 1024×1024×4096": SMALL_SPLIT },
  };
  const size = { rows: 60, columns: 896, depth: 4000 };
  assert.equal(nameOf(table, size, NT), "64 × 64, split");
  assert.equal(nameOf(table, size, NN), "16 × 64");
  for (const kind of [undefined, { ...NT, compute: "f32" }, { ...NN, compute: "f16" }] as const) {
    assert.equal(nameOf(table, size, kind), nameOf({}, size), JSON.stringify(kind));
  }
  assert.equal(nameOf(table, { rows: 3, columns: 896, depth: 896 }, NT), "16 × 64, split");
  // The class of the widest products is measured with narrower ones.
  assert.equal(nameOf(table, { rows: 4096, columns: 14_336, depth: 896 }, NT), "64 × 64");
  // The chunks' sums of so many rows do not fit the scratch tensor.
  assert.equal(nameOf(table, { rows: 1024, columns: 896, depth: 4000 }, NT), "16 × 64");
  for (
    const size of [
      { rows: 20, columns: 896, depth: 4000 },
      { rows: 60, columns: 16, depth: 4000 },
      { rows: 5000, columns: 896, depth: 4000 },
      { rows: 60, columns: 150_000, depth: 4000 },
    ]
  ) assert.equal(nameOf(table, size, NT), nameOf({}, size), JSON.stringify(size));
});

Deno.test("segments take the tile of their class, by their columns in all", () => {
  const layouts = {
    "segments f16 64×6656×4096": { layout: SMALL!, split: true },
    "segments f16 32×1536×1024": { layout: MIDDLE!, split: true },
    "nt f16 64×1024×4096": { layout: SMALL!, split: true },
  };
  const tileOf = (rows: number, depth: number, columns: number[], compute: "f32" | "f16", gpu: Gpu = CARD) =>
    chooseSegmentsTile({ ...gpu, layouts }, { rows, depth, compute }, columns);
  assert.equal(tileOf(64, 4096, [4096, 1024, 1024, 48], "f16"), TILES.small);
  assert.equal(tileOf(32, 896, [896, 128, 128, 48], "f16"), TILES.middle);
  assert.equal(tileOf(17, 896, [896, 128, 128, 48], "f16"), TILES.small, "more padding than 32 rows have");
  assert.equal(tileOf(32, 896, [896, 128, 128, 400], "f16"), TILES.small, "another class");
  assert.equal(tileOf(64, 4096, [4096, 1024, 1024, 48], "f32"), TILES.middle);
  const matrices = withFeatures("shader-f16", SUBGROUP_MATRIX);
  assert.equal(tileOf(64, 4096, [4096, 1024, 1024, 48], "f16", matrices).form, "matrices");
});

Deno.test("a product that is recorded takes the layout of its kind", () => {
  const { recorder, grids } = recordedGrids({
    "nt f16 1024×1024×1024": { layout: SMALL!, split: false },
    "nn f32 1024×1024×1024": { layout: 0, split: false },
    "segments f16 64×6656×1024": { layout: SMALL!, split: true },
  });
  const tensor = (...shape: number[]) => ({ shape, dtype: "f32" }) as unknown as Tensor;
  const x = tensor(1024, 896), y = tensor(1024, 896);
  const weight: Weight = { type: "f32", values: tensor(896, 896), shape: [896, 896] };
  for (const { product, compute } of [NT, NN, { ...NT, compute: "f32" }] as const) {
    matmul(recorder, product as "nt" | "nn", { x, weight, y }, { compute });
  }
  for (const compute of ["f16", "f32"] as const) {
    matmulSegments(recorder, { x: tensor(64, 896), weights: [weight, weight] }, { compute });
  }
  // Tiles of 16 and 128 rows and, as suggested, 64; of segments 16 and, as suggested, 64.
  assert.deepEqual(grids, [64, 8, 16, 4, 1]);
});

Deno.test("the projections of models from 0.5B to 8B have classes, and the sums of what is measured fit", () => {
  const classes = deviceClasses(CARD), names = classes.map(({ name }) => name);
  assert.equal(new Set(names).size, names.length);
  // Width, keys and values, and width of the feed-forward layers of Qwen2.5 and Llama, and A of rank 16.
  const models = [[896, 128, 4864], [1536, 256, 8960], [2048, 512, 8192], [2048, 256, 11_008]];
  for (const [width, kv, inner] of [...models, [3584, 512, 18_944], [4096, 1024, 14_336]]) {
    const sizes = [[width! + 2 * kv! + 48, width], [2 * inner! + 32, width], [width! + 16, width], [
      width! + 16,
      inner,
    ]];
    for (const [columns, depth] of sizes.slice(0, inner! > 16_384 ? 3 : 4)) {
      for (const rows of [17, 64, 100, 256]) {
        const name = layoutClass({ rows, columns: columns!, depth: depth! }, SEGMENTS)!;
        assert.ok(names.includes(name), `${name}: ${width} × ${inner}`);
      }
    }
  }
  for (const { kind, name, rows, columns, depth } of classes) {
    if (kind.product !== "segments") continue;
    const bytes = columns.map((columns) =>
      partialBytes({ rows, columns }, ceilDiv(depth, chunkLength({ columns, depth })))
    );
    assert.ok(bytes.reduce((sum, one) => sum + one) <= SCRATCH_BYTES, name);
    // Where its weights in f16 begin, as bindings must.
    assert.ok(columns.every((columns) => 2 * columns * depth % 256 === 0), name);
  }
});

Deno.test("what a device is measured with takes at most 400 MiB", () => {
  for (const software of [false, true]) {
    let bytes = SCRATCH_BYTES;
    const gpu = countingGpu({ ...assumedGpu(), facts: { ...CARD.facts, software } });
    const createBuffer = gpu.device.createBuffer.bind(gpu.device);
    gpu.device.createBuffer = (given) => {
      bytes += given.size;
      return createBuffer(given);
    };
    deviceMeter(gpu, new ManualClock()).close();
    assert.ok(bytes > 300 << 20 && bytes <= 400 << 20, `${bytes}`);
  }
});

Deno.test("tuning begins with segments, then training, and ends when its time is spent", async () => {
  const clock = new ManualClock(), from = clock.monotonic_ms();
  const { meter, times } = fakeMeter(clock, (name) => name === "16 × 64, split" ? 50 : 90);
  const table = await tuneLayouts(CARD, meter, clock), spent_ms = clock.monotonic_ms() - from;
  assert.ok(spent_ms >= BUDGET_MS.gpu && spent_ms <= BUDGET_MS.gpu + 90);
  assert.ok(times.length <= BUDGET_MS.gpu / 50 && times.every(({ kind }) => kind.product === "segments"));
  // The last class was not completed, and of those before it each takes the small tile, or has it anyway.
  assert.ok(Object.keys(table).length > 0);
  assert.deepEqual(new Set(Object.values(table).map(({ layout }) => layout)), new Set([SMALL]));
  const all = deviceClasses(CARD).map(({ kind, rows }) => `${kind.product} ${rows}`);
  assert.deepEqual([...new Set(all)], [
    ...["segments 32", "segments 64", "segments 128", "segments 256", "nt 1024", "nn 1024", "nt 4096"],
    ...["nn 4096", "nt 256", "nn 256", "nt 64", "nt 16"],
  ]);
});

Deno.test("a layout is timed twice, the usual one as well, and once where it is much slower", async () => {
  const clock = new ManualClock();
  const { meter, times } = fakeMeter(clock, (name) => name === "64 × 64" ? 0.5 : 1);
  await tuneLayouts(CARD, meter, clock);
  const count = (wanted: string) =>
    times.filter(({ name, rows, kind }) => name === wanted && rows === 4096 && kind.product === "nt").length;
  assert.deepEqual(["128 × 128", "64 × 64", "16 × 64"].map(count), [18, 18, 18]);
  const slow = fakeMeter(clock, (name) => name === "16 × 64" ? 2 : 1);
  await tuneLayouts(CARD, slow.meter, clock);
  times.splice(0, Infinity, ...slow.times);
  assert.deepEqual(["128 × 128", "64 × 64", "16 × 64"].map(count), [18, 18, 9]);
});

Deno.test("a layout with other bits than the plain form in a kind of products is not chosen for it, nor taken from a file", async () => {
  await withFolder(async (folder) => {
    const clock = new ManualClock();
    const isBest = (name: string, { product }: ProductKind) =>
      name === (product === "segments" ? "64 × 64, split" : "16 × 64, split");
    const right = (name: string, kind: ProductKind) => isBest(name, kind) ? 0.5 : 1;
    const wrong = () =>
      fakeMeter(clock, right, (name, kind) => kind.product !== "nn" && isBest(name, kind)).meter;
    assert.deepEqual(kindsOf(await tuneLayouts(CARD, wrong(), clock)), ["nn f32"]);
    const first = await tunedGpu(CARD, folder, { clock, meter: () => fakeMeter(clock, right).meter });
    assert.deepEqual(kindsOf(first.layouts!), ["nn f32", "nt f16", "segments f16"]);
    const later = await tunedGpu(CARD, folder, { clock, meter: wrong });
    const kept = Object.entries(first.layouts!).filter(([name]) => name.startsWith("nn"));
    assert.deepEqual(later.layouts, Object.fromEntries(kept));
    // What the canary left out is neither compiled nor read.
    const card = { ...CARD, wrong_layouts: ["64 × 64, split", "16 × 64, split"] };
    const { meter, times } = fakeMeter(clock, right, (name) => card.wrong_layouts.includes(name));
    assert.deepEqual(await tuneLayouts(card, meter, clock), {});
    assert.ok(times.length > 0);
    assert.deepEqual(await readTuning(folder, card), {});
    const classes = deviceClasses({ ...CARD, wrong_segments: true });
    assert.deepEqual(new Set(classes.map(({ kind }) => kind.product)), new Set(["nt", "nn"]));
  });
});

Deno.test("a device is measured once; another driver, a broken file or a folder that nobody can write measures again", async () => {
  await withFolder(async (folder) => {
    const clock = new ManualClock();
    const open = async (gpu: Gpu, at = folder) => {
      const { meter, times } = fakeMeter(clock, smallIsBest);
      const { layouts, facts } = await tunedGpu(gpu, at, { clock, meter: () => meter });
      return { layouts, tuning: facts.tuning!, is_measured: times.length > 0 };
    };
    const first = await open(CARD), second = await open(CARD);
    assert.deepEqual([first.is_measured, second.is_measured], [true, false]);
    assert.deepEqual(second.layouts, first.layouts);
    assert.match(
      first.tuning,
      /^\d+ of 104 classes of products have a layout of their own \(just measured\)$/,
    );
    assert.match(second.tuning, /\(stored\)$/);
    assert.equal((await open({ ...CARD, facts: { ...CARD.facts, driver: "2" } })).is_measured, true);
    assert.equal((await open(withFeatures("subgroups"))).is_measured, true);
    const path = tuningPath(folder, CARD.facts), stored = await Deno.readTextFile(path);
    for (const text of ["{", "[]", "null", stored.replace(/"key":"/, "$&x"), "[".repeat(5000)]) {
      await Deno.writeTextFile(path, text);
      assert.equal(await readTuning(folder, CARD), null, text.slice(0, 20));
      assert.equal((await open(CARD)).is_measured, true);
    }
    await Deno.writeTextFile(path, stored.replace(/"layout":\d+/g, '"layout":99'));
    assert.deepEqual(await readTuning(folder, CARD), {}, "layouts that the device lacks");
    await Deno.writeTextFile(path, stored.replace(/"(nt|nn|segments) f\d\d /g, '"'));
    assert.deepEqual(await readTuning(folder, CARD), {}, "classes of sizes alone");
    const nowhere = await open(CARD, `${path}/folder`);
    assert.deepEqual([nowhere.is_measured, nowhere.layouts], [true, first.layouts]);
  });
});

Deno.test("a software adapter has classes of sizes alone, and each of its layouts", async () => {
  const card = countingGpu({ ...assumedGpu(), facts: { ...CARD.facts, software: true }, subgroup_size: 8 });
  const names = deviceClasses(card).map(({ name }) => name);
  assert.deepEqual(
    [names.length, names[0], names[4], names.at(-1)],
    [45, "16×1024×1024", "16×4096×4096", "4096×16384×16384"],
  );
  assert.deepEqual(
    layoutChoices(card, { product: "nt" }),
    [0, 1].map((layout) => ({ layout, split: false })),
  );
  const layouts = { "64×1024×1024": { layout: 0, split: false } };
  const size = { rows: 60, columns: 896, depth: 896 };
  for (const kind of [undefined, { ...NT, compute: "f32" }, NN] as const) {
    assert.equal(nameOf({}, size, kind, card), "lanes 8, 4 rows of each");
    assert.equal(nameOf(layouts, size, kind, card), "lanes 8, 1 rows of each");
  }
  const clock = new ManualClock();
  const { meter } = fakeMeter(clock, (name) => name === "lanes 8, 1 rows of each" ? 0.5 : 1);
  const table = await tuneLayouts(card, meter, clock);
  // Up to 16 rows it is the usual one.
  assert.deepEqual(Object.keys(table), names.slice(9));
  assert.deepEqual(new Set(Object.values(table).map(({ layout }) => layout)), new Set([0]));
});

/** The device in the forms of a GPU, and as it is. */
const formsOf = (gpu: Gpu) => [{ ...gpu, facts: { ...gpu.facts, software: false } }, gpu];

gpuTest("every choice has the same bits, in the forms of a GPU and of a software adapter", async (gpu) => {
  const clock = new ManualClock(), texts = new Set<string>();
  const createShaderModule = gpu.device.createShaderModule.bind(gpu.device);
  gpu.device.createShaderModule = (given) => {
    texts.add(given.code);
    return createShaderModule(given);
  };
  for (const card of formsOf(gpu)) {
    const meter = deviceMeter(card, clock);
    const kinds = new Map(deviceClasses(card).map(({ kind }) => [kind.product, kind]));
    assert.equal(kinds.size, card.facts.software ? 1 : 3);
    for (const kind of kinds.values()) {
      const layouts = layoutChoices(card, kind).map((choice) => layoutOf(card, choice)!);
      const all: Uint32Array[] = [];
      for (const layout of layouts) all.push(await meter.bits(kind, layout));
      assert.ok(all.length >= 2 && all[0]!.some((word) => word !== 0));
      all.forEach((bits, i) => assert.deepEqual(bits, all[0], `${kind.product} ${layoutName(layouts[i]!)}`));
    }
    meter.close();
    // Each kind has three tiles, and one kernel adds the sums of chunks.
    if (!card.facts.software) assert.equal(texts.size, 10);
  }
  gpu.device.createShaderModule = createShaderModule;
}, lacksF16);

gpuTest("products of all kinds are timed", async (gpu) => {
  // Three empty submits take 1 ms, and what is timed then 50.
  const steps = Array(6).fill(1), clock = { now: 0, monotonic_ms: () => clock.now += steps.pop() ?? 50 };
  const [card] = formsOf(gpu), meter = deviceMeter(card!, clock), layout = { ...TILES.small, split: true };
  card!.device.pushErrorScope("validation");
  for (const [kind, ...columns] of [[NT, 96], [NN, 96], [SEGMENTS, 64, 32]] as const) {
    assert.equal(await meter.time({ kind, rows: 4, columns, depth: 256 }, layout), 49);
  }
  assert.equal(await card!.device.popErrorScope(), null);
  meter.close();
}, lacksF16);

gpuTest("the device is measured, and its table is stored", async (gpu) => {
  await withFolder(async (folder) => {
    // A clock that jumps at each look: in the forms of a GPU bits are compared, and on software a few products are timed as well.
    for (const [i, card] of formsOf(gpu).entries()) {
      let now = 0;
      const step_ms = i === 0 ? BUDGET_MS.gpu / 2 : BUDGET_MS.software / 16;
      const clock = Object.assign(new ManualClock(), { monotonic_ms: () => now += step_ms });
      const { facts, layouts } = await tunedGpu(card, folder, { clock });
      assert.match(facts.tuning!, /just measured/);
      assert.deepEqual(await readTuning(folder, card), layouts);
    }
  });
});
