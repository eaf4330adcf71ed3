/** Gradients by name, from the device and from the goldens, and their difference. */

import { deepEqual, equal } from "node:assert/strict";
import { GGUF_NAMES, type LoraTarget } from "../../core/lora_targets.ts";
import { readSafetensors } from "../../trainer/formats/safetensors.ts";
import { type DeviceAdapter, unpackAdapter } from "../../trainer/model/device_adapter.ts";
import { fixturePath } from "../fixture.ts";
import { type LoadedParts, relativeL2, TOLERANCE } from "./golden.ts";

/**
 * From the goldens' README: single elements of float32 arithmetic differ by up to 1.4e-4 of the tensor's root mean
 * square. With operands in half precision they may differ more, in the same proportion as entire tensors.
 */
export const ELEMENT_TOLERANCE = {
  f32: 3 * 1.4e-4,
  f16: 3 * 1.4e-4 * TOLERANCE.f16.gradient / TOLERANCE.f32.gradient,
};

/** By `blk.<layer>.<projection>.<A|B>`. */
type NamedGradients = Map<string, Float32Array>;

/** The gradients from the last step. */
export async function readGradients(
  { trainer, model }: LoadedParts,
  adapter: DeviceAdapter,
): Promise<NamedGradients> {
  const flat = unpackAdapter(adapter.layout, model.shape, await trainer.readGradient(adapter));
  const out: NamedGradients = new Map();
  for (const [key, { a, b }] of flat.tensors) {
    const [block, layer, target] = key.split(".");
    const name = `${block}.${layer}.${GGUF_NAMES[target as LoraTarget]}`;
    out.set(`${name}.A`, a).set(`${name}.B`, b);
  }
  return out;
}

/** The tensors of a safetensors fixture whose names start with `prefix`, by the rest of the name. */
export async function readGradientFile(name: string, prefix = ""): Promise<NamedGradients> {
  const { tensors } = await readSafetensors(await fixturePath(name));
  return new Map(
    [...tensors].filter(([key]) => key.startsWith(prefix))
      .map(([key, { data }]) => [key.slice(prefix.length), new Float32Array(data.slice().buffer)]),
  );
}

/** The largest relative error of a tensor, and the largest of an element relative to its tensor's root mean square. */
export function compareGradients(
  found: NamedGradients,
  expected: NamedGradients,
): { tensor: number; element: number } {
  deepEqual([...found.keys()].sort(), [...expected.keys()].sort());
  const worst = { tensor: 0, element: 0 };
  for (const [name, values] of expected) {
    const actual = found.get(name)!;
    equal(actual.length, values.length, name);
    const rms = Math.hypot(...values) / Math.sqrt(values.length);
    values.forEach((value, i) => worst.element = Math.max(worst.element, Math.abs(value - actual[i]!) / rms));
    worst.tensor = Math.max(worst.tensor, relativeL2(actual, values));
  }
  return worst;
}
