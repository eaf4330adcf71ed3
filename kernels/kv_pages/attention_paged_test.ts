import assert from "node:assert/strict";
import { PAGE_TOKENS } from "../../core/kv_pages.ts";
import type { Gpu } from "../device.ts";
import { expectClose, filled, gpuTest, randomNormal, run } from "../gpu_testing.ts";
import { attentionForward } from "../attention/attention.ts";
import { deviceOptions, type FormOptions } from "../variant.ts";
import { packRows } from "../attention/packed_rows.ts";
import { attentionPaged, type PagedOptions, planShared } from "./attention_paged.ts";
import { CASES, layPages, type PagedCase, SHARING_CASES } from "./kv_pages_cases.ts";
import { attentionPagedReference } from "./kv_pages_reference.ts";

type Options = FormOptions & Pick<PagedOptions, "adjacent" | "slots">;
const FORMS: readonly Options[] = [
  { form: "lanes" },
  { form: "lanes", lanes: 1 },
  { form: "tiles", adjacent: Infinity },
  { form: "tiles" },
];
/** The width of heads for tests with a single lane, which runs the text of several with another number. */
const LONE_WIDTH = 16;

const title = ({ form, lanes, adjacent }: Options) =>
  `attentionPaged (${form}${lanes ? ", alone" : ""}${adjacent ? ", adjacent" : ""})`;

/** Keys and values exist where sequences have tokens; all other page entries are NaN and must not be read. */
function inputs(shape: PagedCase) {
  const { heads, kv_heads, width, dtype, sequences, rows } = shape;
  const places = layPages(shape);
  const count = places.pages * kv_heads * PAGE_TOKENS * width;
  const rounded = (seed: number) => {
    const values = randomNormal(seed, count);
    return dtype === "f16" ? Float64Array.from(Float16Array.from(values)) : values;
  };
  const used = new Uint8Array(places.pages * PAGE_TOKENS);
  sequences.forEach(({ tokens }, slot) => {
    for (let t = 0; t < tokens; t++) {
      used[
        places.page_table[slot * places.slot_pages + Math.floor(t / PAGE_TOKENS)]! * PAGE_TOKENS +
        t % PAGE_TOKENS
      ] = 1;
    }
  });
  const blank = (values: Float64Array) =>
    values.map((x, at) => {
      const token = Math.floor(at / width), page = Math.floor(token / PAGE_TOKENS / kv_heads);
      return used[page * PAGE_TOKENS + token % PAGE_TOKENS] ? x : NaN;
    });
  const q = randomNormal(1, rows.length * heads * width);
  const scale = Math.fround(1 / Math.sqrt(width));
  const rules = { scale, window: shape.window ?? null, soft_cap: shape.soft_cap ?? null };
  return { ...shape, ...places, q, scale, rules, k_pages: blank(rounded(2)), v_pages: blank(rounded(3)) };
}

type Inputs = ReturnType<typeof inputs>;

/** Runs the rows; `o` and `state` start with arbitrary values. `counted` gets the number of dispatches. */
async function runPaged(gpu: Gpu, given: Inputs, options: Options, counted: number[] = []) {
  const { heads: H, kv_heads: K, width: D, dtype, pages, slot_pages, sequences } = given;
  const N = given.slots.length;
  return await run(gpu, {
    q: [given.q, [N, H, D]],
    k_pages: [given.k_pages, [pages, K, PAGE_TOKENS, D], dtype],
    v_pages: [given.v_pages, [pages, K, PAGE_TOKENS, D], dtype],
    page_table: [given.page_table, [sequences.length, slot_pages], "u32"],
    slots: [given.slots, [N], "u32"],
    positions: [given.positions, [N], "u32"],
    state: filled(NaN, N, H, 2),
    o: filled(NaN, N, H, D),
  }, (recorder, t) => {
    attentionPaged(recorder, t, given.rules, options);
    recorder.submit();
    counted.push(recorder.counters.dispatches);
  });
}

for (const options of FORMS) {
  for (const shape of CASES) {
    if (options.lanes === 1 && shape.width > LONE_WIDTH) continue;
    gpuTest(`${title(options)} agrees with its f64 reference: ${shape.name}`, async (gpu) => {
      const given = inputs(shape);
      const { o: actual } = await runPaged(gpu, given, options);
      // Sums of up to 200 terms round to 1e-6 of their largest.
      expectClose(actual, attentionPagedReference(given), { relative: 2e-6, absolute: 2e-6 }, "o");
    });
  }

  gpuTest(`${title(options)}: a row's bits do not depend on other rows`, async (gpu) => {
    for (const shape of CASES.filter((c) => c.rows.length > 1 && c.width <= 64)) {
      if (options.lanes === 1 && shape.width > LONE_WIDTH) continue;
      const given = inputs(shape);
      const { o: all } = await runPaged(gpu, given, options);
      const size = shape.heads * shape.width;
      for (const row of [0, 1, shape.rows.length - 1]) {
        const alone = {
          ...given,
          q: given.q.subarray(row * size, (row + 1) * size),
          slots: given.slots.subarray(row, row + 1),
          positions: given.positions.subarray(row, row + 1),
        };
        const expected = all.subarray(row * size, (row + 1) * size);
        assert.deepEqual((await runPaged(gpu, alone, options)).o, expected, `${shape.name}, row ${row}`);
      }
    }
  });
}

gpuTest(
  "rows that share all of their pages are finished by the first kernel, whatever rows are between them",
  async (gpu) => {
    const shape = CASES.find((c) => c.name.startsWith("a row that ends"))!;
    const given = inputs(shape);
    const { state } = await runPaged(gpu, given, { form: "lanes" });
    // The scratch of a finished row does not change. A single lane's rows are always finished; with 16 lanes the rows
    // of slots 1 and 2 are in one subgroup.
    const { lanes } = deviceOptions(gpu);
    const going = lanes === 1 ? [] : lanes <= 8 ? [8, 10] : [2, 3, 6, 8, 10];
    const actual = shape.rows.flatMap((_, row) => Number.isNaN(state[2 * row * shape.heads]!) ? [] : [row]);
    assert.deepEqual(actual, going);
  },
);

gpuTest(
  "a software adapter needs one dispatch where the rows of each subgroup are of one slot",
  async (gpu) => {
    const { lanes } = deviceOptions(gpu), base = CASES.find((c) => c.name.startsWith("prefills that meet"))!;
    const of = (slot: number, count: number) => Array.from({ length: count }, (_, i) => [slot, i] as const);
    const cases: { rows: PagedCase["rows"]; dispatches: number }[] = [
      { rows: [...of(0, 2 * lanes), ...of(1, lanes + 2)], dispatches: 1 },
      { rows: [...of(0, lanes - 1), [null, 0], ...of(1, 2)], dispatches: 1 },
      // A row that is alone in its subgroup, and two slots in one.
      { rows: of(0, lanes + 1), dispatches: 2 },
      { rows: [...of(0, lanes), ...of(0, 1), ...of(1, lanes)], dispatches: 2 },
    ];
    for (const { rows, dispatches } of cases) {
      const given = inputs({ ...base, rows }), slots = [...given.slots];
      const counted: number[] = [];
      const { o } = await runPaged(gpu, given, { form: "lanes", slots }, counted);
      assert.deepEqual(counted, [dispatches]);
      expectClose(o, attentionPagedReference(given), { relative: 2e-6, absolute: 2e-6 }, "o");
      assert.deepEqual(o, (await runPaged(gpu, given, { form: "lanes" })).o);
    }
  },
  (gpu) => deviceOptions(gpu).lanes > 1 ? null : "one lane finds all pages shared",
);

gpuTest("attentionPaged names the tensor whose shape is wrong", async (gpu) => {
  const given = inputs(CASES[1]!);
  const { heads: H, kv_heads: K, width: D, pages, slot_pages, sequences } = given;
  const N = given.slots.length;
  await run(gpu, {
    q: [given.q, [N, H, D]],
    wide: filled(0, 1, H, 260),
    pages: filled(0, pages, K, PAGE_TOKENS, D),
    half: [given.k_pages, [pages, K, PAGE_TOKENS, D], "f16"],
    small: filled(0, pages, K, 16, D),
    odd: filled(0, 1, 4, PAGE_TOKENS, D),
    wide_pages: filled(0, 1, K, PAGE_TOKENS, 260),
    page_table: [given.page_table, [sequences.length, slot_pages], "u32"],
    slots: [given.slots, [N], "u32"],
    state: filled(0, N, H, 2),
  }, (recorder, t) => {
    const good = { ...t, k_pages: t.pages, v_pages: t.pages, positions: t.slots, o: t.q };
    const refused = (changed: Partial<typeof good>, message: string) =>
      assert.throws(() => attentionPaged(recorder, { ...good, ...changed }, { scale: 1 }), {
        name: "ShapeError",
        message,
      });
    refused({ k_pages: t.small }, `Cannot use k_pages [${pages}, 2, 16, 16]: expected [${pages}, 2, 32, 16]`);
    refused({ v_pages: t.half }, "Cannot use v_pages of f16: expected f32");
    refused({ k_pages: t.slots }, `Cannot use k_pages [${N}]: expected [${N}, 0, 32, 0]`);
    refused({ o: t.state }, `Cannot use o [${N}, 14, 2]: expected [${N}, 14, 16]`);
    refused({ state: t.q }, `Cannot use state [${N}, 14, 16]: expected [${N}, 14, 2]`);
    refused({ slots: t.page_table }, `Cannot use slots [11, ${slot_pages}]: expected [${N}]`);
    refused({ page_table: t.slots }, `Cannot use page_table [${N}]: expected 2 axes`);
    refused({ k_pages: t.odd, v_pages: t.odd }, "Cannot use query heads 14: expected a multiple of 4");
    const wide = { q: t.wide, o: t.wide, k_pages: t.wide_pages, v_pages: t.wide_pages };
    refused(
      { ...wide, state: { ...t.state, shape: [1, H, 2] } },
      "Cannot use head width 260: expected at most 256",
    );
  });
});

gpuTest("a row's bits on GPUs are the same in a prefill, in a decode and in a pass of both", async (gpu) => {
  for (const shape of CASES.filter((c) => c.width <= 64)) {
    const given = inputs(shape);
    const { o: prefilled } = await runPaged(gpu, given, { form: "tiles", adjacent: Infinity });
    for (const adjacent of [0, Math.ceil(shape.rows.length / 2)]) {
      const { o } = await runPaged(gpu, given, { form: "tiles", adjacent });
      assert.deepEqual(o, prefilled, `${shape.name}, ${adjacent} adjacent`);
    }
  }
});

/** The rows with the same keys and values in pages of their own. */
function withOwnPages(given: Inputs): Inputs {
  const size = given.kv_heads * PAGE_TOKENS * given.width;
  // The first page is that of unused entries.
  const from = [0], page_table = given.page_table.map((page) => page === 0 ? 0 : from.push(page) - 1);
  const copied = (pages: Float64Array) => {
    const all = new Float64Array(from.length * size);
    from.forEach((page, i) => all.set(pages.subarray(page * size, (page + 1) * size), i * size));
    return all;
  };
  const k_pages = copied(given.k_pages), v_pages = copied(given.v_pages);
  return { ...given, pages: from.length, page_table, k_pages, v_pages };
}

for (const shape of SHARING_CASES) {
  gpuTest(`rows that share pages have the bits of rows that share nothing: ${shape.name}`, async (gpu) => {
    const given = inputs(shape), { page_table, slot_pages, slots } = given;
    const { o: own } = await runPaged(gpu, withOwnPages(given), { form: "tiles" });
    const pages = shape.rows.map(([slot, position]) =>
      slot === null ? null : [...page_table.subarray(slot * slot_pages)].slice(0, position / PAGE_TOKENS + 1)
    );
    const plan = planShared(pages, shape, { rows: 2, pages: 1, workgroups: 1 })!;
    assert.ok(plan.tiles.length >= 2);
    const { heads: H, kv_heads: K, width: D, dtype, sequences } = shape, N = slots.length;
    const { o } = await run(gpu, {
      q: [given.q, [N, H, D]],
      k_pages: [given.k_pages, [given.pages, K, PAGE_TOKENS, D], dtype],
      v_pages: [given.v_pages, [given.pages, K, PAGE_TOKENS, D], dtype],
      page_table: [page_table, [sequences.length, slot_pages], "u32"],
      slots: [slots, [N], "u32"],
      positions: [given.positions, [N], "u32"],
      tiles: [plan.tiles.flat(), [plan.tiles.length, 2], "u32"],
      shared_tokens: [plan.shared_tokens, [N], "u32"],
      state: filled(NaN, N, H, 2),
      o: filled(NaN, N, H, D),
    }, (recorder, t) => {
      const options = { form: "tiles", sharing: { ...t, range: plan.range } } as const;
      attentionPaged(recorder, t, given.rules, options);
    });
    assert.deepEqual(o, own);
    assert.ok(o.some((x) => x !== 0));
  });
}

Deno.test("a row joins a tile if that saves reads", () => {
  const shape = { heads: 14, kv_heads: 2, width: 64 }, least = { rows: 2, pages: 1, workgroups: 1 };
  const tilesOf = (pages: (number[] | null)[]) => planShared(pages, shape, least)?.tiles;
  const pages = (...first: number[]) => (own: number) => [...first, own];
  const a = pages(1, 2, 3), b = pages(1, 4, 5);
  assert.deepEqual(tilesOf([a(10), a(11), a(12), b(13), b(14)]), [[0, 3], [3, 2]]);
  // Four rows read one page instead of four, or two pairs of rows two pages each instead of four.
  const c = pages(1, 2), d = pages(1, 3);
  assert.deepEqual(tilesOf([c(10), c(11), d(12), d(13)]), [[0, 4]]);
  assert.deepEqual(tilesOf(Array.from({ length: 19 }, (_, i) => a(20 + i))), [[0, 8], [8, 8], [16, 3]]);
  assert.deepEqual(tilesOf([[1], null, [1], [2], [2]]), [[3, 2]]);
  assert.equal(tilesOf([[1], [2], null, [3]]), undefined);
  // 2 tiles of one split, 2 key/value heads with 2 workgroups each.
  const groups = [a(10), a(11), b(12), b(13)];
  const plan = (more: Partial<typeof least>) => planShared(groups, shape, { ...least, ...more });
  assert.deepEqual(plan({ workgroups: 8 })!.shared_tokens, [96, 96, 96, 96]);
  for (const more of [{ workgroups: 9 }, { pages: 4 }, { rows: 3 }]) assert.equal(plan(more), null);
});

for (
  const [options, window] of [
    [{ form: "lanes" }, undefined],
    [{ form: "lanes" }, 21],
    [{ form: "tiles", adjacent: Infinity }, undefined],
    [{ form: "tiles", adjacent: Infinity }, 21],
    [{ form: "tiles" }, undefined],
  ] as const
) {
  const same = window ? "same keys in a window" : "same keys";
  gpuTest(`${title(options)} equals attention over packed rows with the ${same}`, async (gpu) => {
    const heads = 14, kv_heads = 2, width = 16, prompt = 45, length = 280;
    const shape: PagedCase = {
      ...{ name: "", heads, kv_heads, width, dtype: "f32" },
      sequences: [{ tokens: length, shared_pages: 0 }],
      rows: Array.from({ length }, (_, position) => [0, position]),
      ...(window ? { window } : {}),
    };
    const paged = inputs(shape);
    const { o } = await runPaged(gpu, paged, options);
    const packed = packRows([{ prompt, members: [length - prompt] }], 32);
    const starts = packed.groups.flatMap((g) => [g.prompt, ...g.members]);
    // The row of each token, and its key and value from the pages.
    const rowOf = starts.flatMap(({ start, length }) => Array.from({ length }, (_, i) => start + i));
    const N = packed.count;
    const q = new Float64Array(N * heads * width);
    const k = new Float64Array(N * kv_heads * width), v = k.slice();
    rowOf.forEach((row, t) => {
      q.set(paged.q.subarray(t * heads * width, (t + 1) * heads * width), row * heads * width);
      for (let kv = 0; kv < kv_heads; kv++) {
        const page = paged.page_table[Math.floor(t / PAGE_TOKENS)]!;
        const at = ((page * kv_heads + kv) * PAGE_TOKENS + t % PAGE_TOKENS) * width;
        k.set(paged.k_pages.subarray(at, at + width), (row * kv_heads + kv) * width);
        v.set(paged.v_pages.subarray(at, at + width), (row * kv_heads + kv) * width);
      }
    });
    const actual = await run(gpu, {
      q: [q, [N, heads, width]],
      k: [k, [N, kv_heads, width]],
      v: [v, [N, kv_heads, width]],
      rows: [packed.rows, [N, 4], "u32"],
      o: filled(NaN, N, heads, width),
      lse: filled(NaN, N, heads),
    }, (recorder, t) => attentionForward(recorder, t, paged.rules, { form: options.form }));
    const size = heads * width;
    const gathered = Float64Array.from(
      rowOf.flatMap((row) => [...actual.o.subarray(row * size, (row + 1) * size)]),
    );
    assert.deepEqual(o, gathered, "bit for bit, after the prompt too");
  });
}
