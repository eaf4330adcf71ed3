/** A device for plans in tests, where no GPU is probed. */

import { assumedGpu } from "../kernels/assumed_gpu.ts";

/** What a plan needs of an ordinary GPU. */
export const ASSUMED_CARD = assumedGpu();

/** What a probe of it tells. */
export const ASSUMED_DEVICE = { ...ASSUMED_CARD.facts, subgroup_size: ASSUMED_CARD.subgroup_size };
