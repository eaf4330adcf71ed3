/** The interface that every architecture implements. */

import type { GgufFile } from "../../formats/gguf.ts";
import type { ModelShape } from "../model_shape.ts";

/** Reads the header of a GGUF file of one architecture. */
export interface Architecture {
  /**
   * The shape of the model, from the metadata and the names of the tensors. The caller checks the tensors' shapes.
   *
   * @throws {ServiceError} `not_built` for a part that this build cannot compute, `format_invalid` for missing metadata.
   */
  readShape(file: GgufFile): ModelShape;
}
