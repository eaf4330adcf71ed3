/** What every architecture exports. */

import type { GgufFile } from "../../formats/gguf.ts";
import type { ModelShape } from "../model_shape.ts";

export interface Architecture {
  /**
   * The shape that the metadata and the names of tensors ask for; whether the tensors have it is checked by others.
   *
   * @throws {ServiceError} `not_built` for what no pass computes, `format_invalid` for missing metadata.
   */
  readShape(file: GgufFile): ModelShape;
}
