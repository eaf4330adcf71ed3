import { deepEqual, equal, notDeepEqual, ok } from "node:assert/strict";
import { LORA_TARGETS, type LoraTarget } from "../../core/lora_targets.ts";
import { loraDifference, loraKey, loraOrder, type LoraTensors } from "../formats/lora.ts";
import {
  adapterLayout,
  initialParameters,
  INPUT_GROUPS,
  packAdapter,
  unpackAdapter,
} from "./device_adapter.ts";
import { linearShape, type ModelShape } from "./model_shape.ts";
import { testShape } from "./model_testing.ts";

const LAYERS = 2;
const MODEL = testShape(LAYERS, { width: 32, heads: 3, kv_heads: 1, head_width: 16, feed_forward: 80 });

/** An adapter in which every value is another number from 1 on. */
function counted(rank: number, targets: LoraTarget[]): LoraTensors {
  let next = 1;
  const values = (count: number) => Float32Array.from({ length: count }, () => next++);
  const tensors = new Map(
    loraOrder(LAYERS, targets).map(({ target, key }) => {
      const { in_width, out_width } = linearShape(MODEL, target);
      return [key, { a: values(rank * in_width), b: values(out_width * rank), in: in_width, out: out_width }];
    }),
  );
  return { architecture: "qwen3", rank, alpha: 2 * rank, targets, layers: LAYERS, tensors };
}

const CASES: { rank: number; targets: LoraTarget[] }[] = [
  { rank: 1, targets: ["k_proj"] },
  { rank: 3, targets: [...LORA_TARGETS] },
  { rank: 4, targets: ["q_proj", "v_proj", "up_proj"] },
  { rank: 6, targets: ["o_proj", "down_proj"] },
];

for (const { rank, targets } of CASES) {
  const name = `rank ${rank} on ${targets.length} targets`;
  const layout = adapterLayout(MODEL, { rank, alpha: 2 * rank, targets });

  Deno.test(`${name}: an adapter comes back from the flat array, whose padding is zero`, () => {
    const tensors = counted(rank, targets), flat = packAdapter(layout, tensors);
    equal(loraDifference(unpackAdapter(layout, MODEL, flat), tensors), null);
    const widths = targets.map((target) => linearShape(MODEL, target));
    const parameters = LAYERS * rank * widths.reduce((sum, w) => sum + w.in_width + w.out_width, 0);
    equal(layout.parameters, parameters);
    deepEqual(
      flat.filter((value) => value !== 0).toSorted(),
      Float32Array.from({ length: parameters }, (_, i) => i + 1),
    );
  });

  Deno.test(`${name}: matrices of one input lie one after the other, each where it can be bound`, () => {
    equal(layout.padded_rank % 4, 0);
    layout.pairs.forEach((pairs, layer) => {
      deepEqual(Object.keys(pairs).sort(), [...targets].sort());
      INPUT_GROUPS.forEach((group, g) => {
        const group_a = layout.lora_a[layer]![g]!,
          members = group.filter((target) => targets.includes(target));
        equal(group_a === null, members.length === 0);
        members.forEach((target, i) => {
          const { a, b, column } = pairs[target]!, { in_width, out_width } = linearShape(MODEL, target);
          equal(column, i * layout.padded_rank);
          equal(a.offset, group_a.offset + column * in_width);
          deepEqual([a.shape, b.shape], [[layout.padded_rank, in_width], [out_width, layout.padded_rank]]);
          deepEqual([a.offset % 64, b.offset % 64, group_a.offset % 64], [0, 0, 0], "256 bytes");
        });
        if (group_a) deepEqual(group_a.shape, [members.length * layout.padded_rank, group_a.shape[1]]);
      });
    });
  });
}

Deno.test("a new adapter has normal A of deviation 1/sqrt(in) and a B of zeros", () => {
  const wide: ModelShape = { ...MODEL, width: 512, feed_forward: 1024 };
  const lora = { rank: 6, alpha: 12, targets: [...LORA_TARGETS] };
  const layout = adapterLayout(wide, lora), flat = initialParameters(layout, 11);
  const { tensors } = unpackAdapter(layout, wide, flat);
  for (const [key, { a, b, in: width }] of tensors) {
    ok(b.every((value) => value === 0), key);
    const scaled = Float64Array.from(a, (value) => value * Math.sqrt(width)), count = scaled.length;
    const moment = (power: number) => scaled.reduce((sum, value) => sum + value ** power, 0) / count;
    // Of normal values the mean is 1/sqrt(n) off, the mean square sqrt(2/n), the fourth moment sqrt(96/n).
    ok(Math.abs(moment(1)) < 5 / Math.sqrt(count), `${key}: mean ${moment(1)}`);
    ok(Math.abs(moment(2) - 1) < 5 * Math.sqrt(2 / count), `${key}: mean square ${moment(2)}`);
    ok(Math.abs(moment(4) - 3) < 5 * Math.sqrt(96 / count), `${key}: fourth moment ${moment(4)}`);
  }
  const used = [...tensors.values()].reduce((sum, { a }) => sum + a.length, 0);
  equal(flat.filter((value) => value !== 0).length, used, "the padding is zero");
});

Deno.test("a seed gives the same bits, another seed, layer or target others", () => {
  const lora = { rank: 4, alpha: 8, targets: [...LORA_TARGETS] }, layout = adapterLayout(MODEL, lora);
  const first = initialParameters(layout, 5);
  deepEqual(initialParameters(layout, 5), first);
  notDeepEqual(initialParameters(layout, 6), first);
  const { tensors } = unpackAdapter(layout, MODEL, first);
  const a = (layer: number, target: LoraTarget) => tensors.get(loraKey(layer, target))!.a;
  notDeepEqual(a(0, "q_proj"), a(1, "q_proj"));
  notDeepEqual(a(0, "q_proj"), a(0, "k_proj"));
  // What a target starts from does not depend on which others are trained.
  const alone = adapterLayout(MODEL, { ...lora, targets: ["k_proj"] });
  const { tensors: only } = unpackAdapter(alone, MODEL, initialParameters(alone, 5));
  deepEqual(only.get(loraKey(1, "k_proj"))!.a, a(1, "k_proj"));
});
