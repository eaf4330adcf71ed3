/** The architectures of model files, for rooms that do not import the trainer. */

import { ARCHITECTURES } from "../../trainer/model/architectures/registry.ts";

/** The architectures that a model file may have, by their `general.architecture`. */
export const ARCHITECTURE_NAMES: readonly string[] = Object.keys(ARCHITECTURES);
