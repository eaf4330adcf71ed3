import assert from "node:assert/strict";
import { ManualClock } from "../../core/clock_fake.ts";
import { withFolder } from "../../tests/folder.ts";
import { assumedGpu } from "../assumed_gpu.ts";
import { countingGpu } from "../counting_gpu.ts";
import type { Gpu } from "../device.ts";
import { gpuTest } from "../gpu_testing.ts";
import { classSizes, layoutClass, type LayoutTable } from "../layout_table.ts";
import { chooseLayout, everyLayout, layoutName, type ScalarLayout, TILES } from "../matmul/matmul_layout.ts";
import { BUDGET_MS, deviceMeter, layoutChoices, type LayoutMeter, tuneLayouts } from "./tune_layouts.ts";
import { readTuning, tunedGpu, tuningPath } from "./tuned_gpu.ts";

const CARD = countingGpu(assumedGpu());

/** A meter whose products take what `ms` says, and move the clock by it. */
function fakeMeter(
  clock: ManualClock,
  ms: (name: string, size: string) => number,
  wrong: readonly string[] = [],
) {
  const times: string[] = [];
  const meter: LayoutMeter = {
    bits: (layout) =>
      layoutName(layout) === "broken"
        ? Promise.reject(new Error("does not compile"))
        : Promise.resolve(Uint32Array.of(1, wrong.includes(layoutName(layout)) ? 3 : 2)),
    async time(layout, size) {
      const taken = ms(layoutName(layout), layoutClass(size)!);
      times.push(layoutName(layout));
      await clock.advance(taken);
      return taken;
    },
    close() {},
  };
  return { meter, times };
}

/** Every class takes the small tile with its chunks apart in half of the time of all others. */
const smallIsBest = (name: string) => name === "16 × 64, split" ? 0.5 : 1;
const SMALL_SPLIT = { layout: Object.keys(TILES).indexOf("small"), split: true };
const nameOf = (gpu: Gpu, table: LayoutTable, size: Parameters<typeof chooseLayout>[1]) =>
  layoutName(chooseLayout({ ...gpu, layouts: table }, size));

Deno.test("the layout that is clearly faster is chosen, and what is as fast as the usual one is not", async () => {
  const clock = new ManualClock();
  const table = await tuneLayouts(CARD, fakeMeter(clock, smallIsBest).meter, clock);
  assert.deepEqual(
    new Set(Object.values(table).map((entry) => JSON.stringify(entry))),
    new Set([JSON.stringify(SMALL_SPLIT)]),
  );
  const usual = classSizes().filter((size) => layoutName(chooseLayout(CARD, size)) === "16 × 64, split");
  assert.equal(Object.keys(table).length, classSizes().length - usual.length);
  const equal = await tuneLayouts(
    CARD,
    fakeMeter(clock, (name) => name === "64 × 64" ? 0.96 : 1).meter,
    clock,
  );
  assert.deepEqual(equal, {});
});

Deno.test("a product takes the layout of its class, and the usual one where it has none or pads much", () => {
  const table = {
    ...{ "64×1024×4096": { layout: 1, split: true }, "16×1024×1024": SMALL_SPLIT },
    "4096×16384×1024": { layout: 1, split: false },
  };
  assert.equal(nameOf(CARD, table, { rows: 60, columns: 896, depth: 4000 }), "64 × 64, split");
  assert.equal(nameOf(CARD, table, { rows: 3, columns: 896, depth: 896 }), "16 × 64, split");
  // The class of the widest products is measured with narrower ones.
  assert.equal(nameOf(CARD, table, { rows: 4096, columns: 14_336, depth: 896 }), "64 × 64");
  for (
    const size of [
      { rows: 20, columns: 896, depth: 4000 },
      { rows: 60, columns: 16, depth: 4000 },
      { rows: 5000, columns: 896, depth: 4000 },
      { rows: 60, columns: 150_000, depth: 4000 },
    ]
  ) assert.equal(nameOf(CARD, table, size), layoutName(chooseLayout(CARD, size)), JSON.stringify(size));
});

Deno.test("tuning ends when its time is spent, with the classes that it completed", async () => {
  const clock = new ManualClock(), from = clock.monotonic_ms();
  const { meter, times } = fakeMeter(clock, (name) => name === "16 × 64" ? 30 : 60);
  const table = await tuneLayouts(CARD, meter, clock), spent_ms = clock.monotonic_ms() - from;
  // Of 16 rows there are only the small tile's two forms: 300 ms for a class.
  assert.ok(times.length < 45, `${times.length} measurements`);
  assert.ok(spent_ms >= BUDGET_MS.gpu && spent_ms <= BUDGET_MS.gpu + 60);
  assert.equal(Object.keys(table).length, 6);
  assert.deepEqual(new Set(Object.values(table)), new Set([{ ...SMALL_SPLIT, split: false }]));
});

Deno.test("a layout with other bits than the plain form is not chosen, however fast, nor taken from a file", async () => {
  await withFolder(async (folder) => {
    const clock = new ManualClock(), wrong = ["16 × 64, split"];
    const broken = fakeMeter(clock, smallIsBest, wrong).meter;
    assert.deepEqual(await tuneLayouts(CARD, broken, clock), {});
    const right = await tunedGpu(CARD, folder, { clock, meter: () => fakeMeter(clock, smallIsBest).meter });
    assert.ok(Object.keys(right.layouts!).length > 0);
    const later = await tunedGpu(CARD, folder, { clock, meter: () => broken });
    assert.deepEqual(later.layouts, {});
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
      /^\d+ of 45 classes of products have a layout of their own \(just measured\)$/,
    );
    assert.match(second.tuning, /\(stored\)$/);
    assert.equal((await open({ ...CARD, facts: { ...CARD.facts, driver: "2" } })).is_measured, true);
    const path = tuningPath(folder, CARD.facts), stored = await Deno.readTextFile(path);
    for (const text of ["{", "[]", "null", stored.replace(/"key":"/, "$&x"), "[".repeat(5000)]) {
      await Deno.writeTextFile(path, text);
      assert.equal(await readTuning(folder, CARD), null, text.slice(0, 20));
      assert.equal((await open(CARD)).is_measured, true);
    }
    await Deno.writeTextFile(path, stored.replace(/"layout":\d+/g, '"layout":99'));
    assert.deepEqual(await readTuning(folder, CARD), {}, "layouts that the device lacks");
    const nowhere = await open(CARD, `${path}/folder`);
    assert.deepEqual([nowhere.is_measured, nowhere.layouts], [true, first.layouts]);
  });
});

gpuTest("every choice has the same bits, in the forms of a GPU and of a software adapter", async (gpu) => {
  const clock = new ManualClock();
  for (const software of [false, true]) {
    const card = { ...gpu, facts: { ...gpu.facts, software } }, meter = deviceMeter(card, clock);
    const layouts = layoutChoices(card).map(({ layout, split }): ScalarLayout => {
      const found = everyLayout(card)[layout]!;
      return found.form === "tiles" ? { ...found, split } : found;
    });
    const all: Uint32Array[] = [];
    for (const layout of layouts) all.push(await meter.bits(layout));
    meter.close();
    assert.ok(all.length >= 2 && all[0]!.some((word) => word !== 0));
    all.forEach((bits, i) =>
      assert.ok(bits.every((word, k) => word === all[0]![k]), layoutName(layouts[i]!))
    );
  }
});

gpuTest("the device is measured, and its table is stored", async (gpu) => {
  await withFolder(async (folder) => {
    // A clock that jumps at each look: a few products are timed, and the budget is spent.
    let now = 0;
    const clock = Object.assign(new ManualClock(), { monotonic_ms: () => now += BUDGET_MS.software / 8 });
    const { facts, layouts } = await tunedGpu(gpu, folder, { clock });
    assert.match(facts.tuning!, /just measured/);
    assert.deepEqual(await readTuning(folder, gpu), layouts);
  });
});
