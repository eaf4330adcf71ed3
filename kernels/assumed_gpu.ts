/** A GPU to plan for where there is none. */

import type { GpuCard } from "./counting_gpu.ts";
import { NEEDED_LIMITS } from "./device.ts";

/** The most that Vulkan drivers of large GPUs let WebGPU bind: 2 GiB without the last word. */
const BINDING_BYTES = 2 ** 31 - 4;

/** An ordinary GPU with half precision; the size of its memory is not known. */
export function assumedGpu(): GpuCard {
  return {
    facts: {
      name: "an ordinary GPU",
      vendor: "",
      backend: "",
      driver: "",
      software: false,
      features: ["shader-f16", "subgroups"],
      limits: {
        ...NEEDED_LIMITS,
        maxBufferSize: BINDING_BYTES,
        maxStorageBufferBindingSize: BINDING_BYTES,
      },
      vram_bytes: null,
    },
    subgroup_size: 32,
  };
}
