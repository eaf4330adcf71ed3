import assert from "node:assert/strict";
import { BUCKETS, detailOf, isCoarse, type Series, SeriesSet, withDetail } from "./series.ts";

const event = (seq: number, update: number, values: Record<string, number | null>) => ({
  seq,
  update,
  values,
});
const bucket = (last_update: number, count: number) => ({
  ...{ name: "a", first_update: last_update - count + 1, last_update, count },
  ...{ min: -1, mean: 0, max: 1, last: 1 },
});

Deno.test("steps of one update are one point, with mean, smallest and largest value", () => {
  const set = new SeriesSet();
  [5, 6, 10].forEach((loss, i) => set.take(event(i + 1, 1, { loss })));
  set.take(event(4, 2, { loss: null }));
  set.take(event(5, 2, { loss: 1 }));
  assert.deepEqual(set.by_name.get("loss"), {
    ...{ updates: [1, 2], values: [7, null], low: [5, null], high: [10, null], counts: [3, 2] },
  });
});

Deno.test("events continue the buckets, and those that the buckets have are left out", () => {
  const set = new SeriesSet();
  set.take(event(1, 1, { gone: 1 }));
  set.begin({ buckets: [bucket(2, 2), bucket(3, 1)], next_since: 7 });
  set.take(event(7, 3, { a: 100 }));
  set.take(event(8, 3, { a: 2 }));
  set.take(event(9, 4, { a: 5 }));
  assert.deepEqual([...set.by_name.keys()], ["a"]);
  const { updates, values, high, counts } = set.by_name.get("a")!;
  assert.deepEqual([updates, values, high, counts], [[2, 3, 4], [0, 1, 5], [1, 2, 5], [2, 2, 1]]);
});

Deno.test("events that come while new buckets are on their way are not lost", () => {
  const set = new SeriesSet();
  set.take(event(7, 3, { a: 1 }));
  set.take(event(8, 4, { a: 40 }));
  set.drop({ seq: 9, update: 3 });
  set.take(event(10, 4, { a: 4 }));
  set.begin({ buckets: [bucket(3, 3)], next_since: 7 });
  assert.deepEqual(set.by_name.get("a")!.values, [0, 4]);
});

Deno.test("a run that resumes drops what came after its checkpoint, and asks anew when that divides a bucket", () => {
  const set = new SeriesSet();
  set.begin({ buckets: [bucket(4, 4), bucket(5, 1), bucket(6, 1)], next_since: 6 });
  set.drop({ seq: 5, update: 0 });
  assert.deepEqual(set.by_name.get("a")!.updates, [4, 5, 6], "an earlier state is in the buckets");
  set.drop({ seq: 7, update: 5 });
  assert.deepEqual([set.by_name.get("a")!.updates, set.is_stale], [[4, 5], false]);
  set.drop({ seq: 8, update: 2 });
  assert.deepEqual([set.by_name.get("a")!.updates, set.is_stale], [[], true]);
});

Deno.test("after as many events as buckets the server should divide the run anew", () => {
  const set = new SeriesSet();
  for (let n = 1; n < BUCKETS; n++) set.take(event(n, n, { a: n }));
  assert.equal(set.is_stale, false);
  set.take(event(BUCKETS, BUCKETS, { a: 1 }));
  assert.equal(set.is_stale, true);
  set.begin({ buckets: [], next_since: BUCKETS });
  assert.equal(set.is_stale, false);
});

const lineOf = (updates: number[], values: number[]): Series => ({
  ...{ updates, values, low: values, high: values, counts: values.map(() => 1) },
});

Deno.test("a part in detail takes the place of its updates, and what comes after it stays", () => {
  const all = new Map([
    ["a", lineOf([10, 20, 30, 40, 50], [1, 2, 3, 4, 5])],
    ["seldom", lineOf([50], [7])],
    ["not there", lineOf([20, 50], [8, 9])],
  ]);
  // Of updates 15 to 35, up to the newest one: 33.
  const buckets = [...[16, 20, 33].map((update) => ({ ...bucket(update, 1), mean: update }))];
  const detail = detailOf({ buckets, next_since: 9 }, 15);
  assert.deepEqual([detail.from, detail.end], [15, 33]);
  const found = withDetail(all, detail);
  const points = (name: string) => [found.get(name)!.updates, found.get(name)!.values];
  assert.deepEqual(points("a"), [[10, 16, 20, 33, 40, 50], [1, 16, 20, 33, 4, 5]]);
  assert.deepEqual(points("seldom"), [[50], [7]]);
  assert.deepEqual(points("not there"), [[50], [9]]);
});

Deno.test("a run is coarse when it has more updates than there are buckets", () => {
  const of = (last: number) => isCoarse(new Map([["a", lineOf([5, last], [0, 0])], ["b", lineOf([9], [0])]]));
  assert.deepEqual([of(4 + BUCKETS), of(5 + BUCKETS), isCoarse(new Map())], [false, true, false]);
});
