/** A GPU to plan for where there is none. */

import type { GpuCard } from "./counting_gpu.ts";
import { NEEDED_LIMITS } from "./device.ts";

/**
 * The most that a program may bind, however much the driver lends.
 *
 * @source wgpu-hal's `MAX_I32_BINDING_SIZE`, for Vulkan and Direct3D 12.
 */
const BINDING_BYTES = 2 ** 31 - 1;

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
