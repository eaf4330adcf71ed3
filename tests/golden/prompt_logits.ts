/** Logits from the parts of a model, without sampler and trainer. */

import { attentionForward } from "../../kernels/attention/attention.ts";
import { attentionRowAlignment } from "../../kernels/attention/attention_plan.ts";
import { packRows } from "../../kernels/attention/packed_rows.ts";
import { Activations } from "../../trainer/model/activations.ts";
import type { DeviceAdapter } from "../../trainer/model/device_adapter.ts";
import { normalizeOutput, projectToLogits } from "../../trainer/model/output_head.ts";
import { forward } from "../../trainer/model/transformer.ts";
import type { LoadedParts } from "./golden.ts";

/** The logits after every token of each prompt. */
export async function promptLogits(
  { model, allocator }: Pick<LoadedParts, "model" | "allocator">,
  adapter: DeviceAdapter | null,
  prompts: readonly (readonly number[])[],
): Promise<Float32Array[][]> {
  const { recorder, shape } = model, { width, vocabulary } = shape;
  const groups = prompts.map((ids) => ({ prompt: 0, members: [ids.length] }));
  const packed = packRows(groups, attentionRowAlignment(recorder.gpu)), rows = packed.count;
  const places = packed.groups.map(({ members }) => members[0]!);
  const ids = new Uint32Array(rows), positions = new Uint32Array(rows);
  places.forEach(({ start }, i) => {
    ids.set(prompts[i]!, start);
    positions.set(prompts[i]!.map((_, t) => t), start);
  });
  const upload = (values: Uint32Array, ...dims: number[]) => allocator.upload("test", dims, values);
  const create = (...dims: number[]) => allocator.create("test", dims);
  const packed_rows = upload(packed.rows, rows, 4);
  const hidden = forward({
    ...{ model, adapter, rows },
    activations: new Activations(allocator, shape, {
      ...{ rows, kept: "nothing", padded_rank: adapter?.layout.padded_rank ?? 4, component: "test" },
    }),
    ids: upload(ids, rows),
    positions: upload(positions, rows),
    attend: (_, { rules, ...tensors }) =>
      attentionForward(recorder, { ...tensors, rows: packed_rows }, rules),
  });
  const normed = create(rows, width), logits = create(rows, vocabulary);
  normalizeOutput(model, { hidden, normed, rstd: create(rows) });
  projectToLogits(model, { normed, logits });
  const values = new Float32Array((await recorder.submitAndRead([logits]))[0]!);
  return places.map(({ start, length }) =>
    Array.from({ length }, (_, t) => values.subarray((start + t) * vocabulary, (start + t + 1) * vocabulary))
  );
}
