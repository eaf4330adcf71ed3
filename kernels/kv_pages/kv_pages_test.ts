import assert from "node:assert/strict";
import { PAGE_TOKENS } from "../../core/kv_pages.ts";
import { ShapeError } from "../shape.ts";
import { filled, gpuTest, randomNormal, run } from "../gpu_testing.ts";
import { kvCopyPage, kvPlaces, kvRound, kvWrite, NO_SLOT } from "./kv_pages.ts";
import { CASES, layPages } from "./kv_pages_cases.ts";
import { kvCopyPageReference, kvWriteReference } from "./kv_pages_reference.ts";

const BEFORE = 0.5;

/** Random normal numbers that f16 represents exactly, so that every rounding mode gives the same bits. */
function exactNormal(seed: number, count: number): Float64Array {
  return Float64Array.from(Float16Array.from(randomNormal(seed, count)));
}

for (const dtype of ["f32", "f16"] as const) {
  for (const shape of CASES) {
    gpuTest(
      `kvWrite writes rows into their ${dtype} pages and nothing else: ${shape.name}`,
      async (gpu) => {
        const { kv_heads: K, width: D, sequences } = shape;
        // A case's rows may share an entry; rows that write do not.
        const places = layPages(shape), seen = new Set<string>();
        places.slots.forEach((slot, row) => {
          const page =
            places.page_table[slot * places.slot_pages + Math.floor(places.positions[row]! / PAGE_TOKENS)];
          const place = `${page},${places.positions[row]! % PAGE_TOKENS}`;
          if (slot !== NO_SLOT && seen.has(place)) places.slots[row] = NO_SLOT;
          seen.add(place);
        });
        const N = places.slots.length;
        const k = exactNormal(1, N * K * D), v = exactNormal(2, N * K * D);
        const [before, page_shape] = filled(BEFORE, places.pages, K, PAGE_TOKENS, D);
        const actual = await run(gpu, {
          k: [k, [N, K, D]],
          v: [v, [N, K, D]],
          page_table: [places.page_table, [sequences.length, places.slot_pages], "u32"],
          slots: [places.slots, [N], "u32"],
          positions: [places.positions, [N], "u32"],
          k_pages: [before, page_shape, dtype],
          v_pages: [before, page_shape, dtype],
        }, kvWrite);
        const input = { ...places, kv_heads: K, width: D };
        assert.deepEqual(actual.k_pages, kvWriteReference(input, k, before));
        assert.deepEqual(actual.v_pages, kvWriteReference(input, v, before));
      },
    );
  }

  gpuTest(`kvCopyPage copies the first tokens of ${dtype} pages`, async (gpu) => {
    const pages = 7, K = 3, D = 12;
    const copies = [[1, 0, 32], [5, 2, 1], [5, 3, 31], [6, 4, 0]] as const;
    const k = exactNormal(1, pages * K * PAGE_TOKENS * D), v = exactNormal(2, k.length);
    const shape = [pages, K, PAGE_TOKENS, D];
    const actual = await run(gpu, {
      copies: [copies.flat(), [copies.length, 3], "u32"],
      k_pages: [k, shape, dtype],
      v_pages: [v, shape, dtype],
    }, kvCopyPage);
    const input = { kv_heads: K, width: D };
    assert.deepEqual(actual.k_pages, kvCopyPageReference(input, copies, k));
    assert.deepEqual(actual.v_pages, kvCopyPageReference(input, copies, v));
  });
}

gpuTest("kvPlaces gives the position and the token of each row, and none without a slot", async (gpu) => {
  const K = 3, slot_pages = 2, table = [9, 4, 7, 2], slots = [1, 0, NO_SLOT, 1], positions = [33, 5, 40, 0];
  const { places } = await run(gpu, {
    page_table: [table, [2, slot_pages], "u32"],
    slots: [slots, [4], "u32"],
    positions: [positions, [4], "u32"],
    places: [new Float64Array(8), [4, 2], "u32"],
  }, (recorder, t) => kvPlaces(recorder, t, K));
  const token = (page: number, at: number) => page * K * PAGE_TOKENS + at;
  assert.deepEqual([...places], [33, token(2, 1), 5, token(9, 5), 40, NO_SLOT, 0, token(7, 0)]);
});

gpuTest("kvWrite rounds to the nearest f16 or its neighbour", async (gpu) => {
  const N = 32, D = 64;
  const x = randomNormal(3, N * D);
  const tokens = Array.from({ length: N }, (_, i) => i);
  const { k_pages } = await run(gpu, {
    k: [x, [N, 1, D]],
    v: [x, [N, 1, D]],
    page_table: [[0], [1, 1], "u32"],
    slots: [new Uint32Array(N), [N], "u32"],
    positions: [tokens, [N], "u32"],
    k_pages: [new Float64Array(N * D), [1, 1, PAGE_TOKENS, D], "f16"],
    v_pages: [new Float64Array(N * D), [1, 1, PAGE_TOKENS, D], "f16"],
  }, kvWrite);
  // WGSL does not specify the rounding of pack2x16float: an error of at most one unit of 2^-10 of the number.
  k_pages.forEach((actual, i) =>
    assert.ok(Math.abs(actual - x[i]!) <= 2 ** -10 * Math.abs(x[i]!) + 2 ** -24)
  );
});

gpuTest("kvWrite and kvCopyPage name the tensor whose shape is wrong", async (gpu) => {
  await run(gpu, {
    k: filled(0, 2, 1, 8),
    v: filled(0, 1, 1, 8),
    page_table: [[0, 0], [1, 2], "u32"],
    slots: [[0, 0], [2], "u32"],
    floats: filled(0, 2),
    copies: [[0, 0], [1, 2], "u32"],
    float_copies: filled(0, 1, 3),
    pages: filled(0, 1, 1, PAGE_TOKENS, 8),
    odd: filled(0, 1, 1, PAGE_TOKENS, 6),
    words: [new Uint32Array(256), [1, 1, PAGE_TOKENS, 8], "u32"],
  }, (recorder, t) => {
    const good = { ...t, v: t.k, positions: t.slots, k_pages: t.pages, v_pages: t.pages };
    const refused = (changed: Partial<typeof good>, message: string) =>
      assert.throws(() => kvWrite(recorder, { ...good, ...changed }), { name: "ShapeError", message });
    refused({ v: t.v }, "Cannot use v [1, 1, 8]: expected [2, 1, 8]");
    refused({ positions: t.floats }, "Cannot use positions of f32: expected u32");
    refused({ k_pages: t.odd, v_pages: t.odd }, "Cannot use head width 6: expected a multiple of 4");
    refused({ k_pages: t.words }, "Cannot use k_pages of u32: expected f32 or f16");
    const copy = (copies: typeof t.copies) => () => kvCopyPage(recorder, { ...good, copies });
    assert.throws(copy(t.copies), {
      name: "ShapeError",
      message: "Cannot use copies [1, 2]: expected [1, 3]",
    });
    assert.throws(copy(t.float_copies), {
      name: "ShapeError",
      message: "Cannot use copies of f32: expected u32",
    });
  });
});

gpuTest("kvRound gives the values of an f16 page, and leaves f32 unchanged", async (gpu) => {
  const shape = [67, 2, 12], count = 67 * 2 * 12;
  const k = randomNormal(3, count), v = randomNormal(4, count).map((x) => 1e-3 * x);
  const given = { k: [k, shape], v: [v, shape] } as const;
  const rounded = await run(gpu, given, (recorder, t) => kvRound(recorder, t, "f16"));
  for (const [actual, exact] of [[rounded.k, k], [rounded.v, v]] as const) {
    actual.forEach((value, i) => {
      assert.equal(value, Math.f16round(value), "a number of 16 bits");
      // Devices may round either way: half a step when they round to nearest, one step at most.
      const step = Math.max(2 ** -24, 2 ** (Math.floor(Math.log2(Math.abs(exact[i]!))) - 10));
      assert.ok(Math.abs(value - exact[i]!) <= step);
    });
    assert.notDeepEqual(actual, exact);
  }
  const untouched = await run(gpu, given, (recorder, t) => kvRound(recorder, t, "f32"));
  assert.deepEqual([untouched.k, untouched.v], [k, v].map((x) => x.map(Math.fround)));
  await run(gpu, { k: filled(0, 2, 1, 4), v: filled(0, 1, 2, 4) }, (recorder, t) => {
    assert.throws(
      () => kvRound(recorder, t, "f16"),
      new ShapeError("Cannot use v [1, 2, 4]: expected [2, 1, 4]"),
    );
  });
});
