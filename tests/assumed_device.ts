/** A device for plans of server tests, where no GPU is probed. */

import { assumedGpu } from "../kernels/assumed_gpu.ts";

const { facts, subgroup_size } = assumedGpu();

/** What a probe of an ordinary GPU tells. */
export const ASSUMED_DEVICE = { ...facts, subgroup_size };
