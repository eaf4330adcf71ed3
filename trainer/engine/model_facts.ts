/** What a client is told about a loaded model. */

import { assert } from "../../core/errors.ts";
import type { DeviceFacts } from "../../core/device.ts";
import type { LoadedModel } from "../model/load_model.ts";
import type { ModelFacts } from "../protocol/protocol.ts";

export function modelFacts(loaded: LoadedModel, device: DeviceFacts, kv: "f32" | "f16"): ModelFacts {
  const { model: { shape, compute }, parameters, tensor_types } = loaded;
  assert(shape.layers.length > 0, "a loaded model has layers");
  return {
    architecture: shape.architecture,
    parameters,
    layers: shape.layers.length,
    width: shape.width,
    vocabulary: shape.vocabulary,
    context_length: shape.context_length,
    tensor_types,
    compute,
    kv,
    device,
  };
}
