/** The tensor types of model files, for rooms that do not import the trainer. */

import { DECODED_TYPES } from "../../trainer/formats/ggml_types.ts";

/** The tensor types that a model file may have, by their GGUF names. */
export const TENSOR_TYPES: readonly string[] = DECODED_TYPES;
