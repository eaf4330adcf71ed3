/** The GPU that plans assume when there is none. */

import type { GpuCard } from "../core/device.ts";
import { NEEDED_LIMITS } from "./device.ts";

/**
 * The largest binding, whatever the driver offers.
 *
 * @source wgpu-hal's `MAX_I32_BINDING_SIZE`, for Vulkan and Direct3D 12.
 */
const BINDING_BYTES = 2 ** 31 - 1;

/** A typical GPU with half precision; the size of its memory is unknown. */
export function assumedGpu(): GpuCard {
  return {
    facts: {
      name: "an ordinary GPU",
      vendor: "",
      webgpu: "deno",
      webgpu_reason: "the one of the runtime",
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
