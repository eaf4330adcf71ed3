/** A device that only counts allocations. Constructors run on it as on a real device. */

import type { GpuCard } from "../core/device.ts";
import type { Gpu } from "./device.ts";
import type { BufferDevice } from "./tensor.ts";

/** A device with these limits and without memory. Nothing can run on it. */
export function countingGpu({ facts, subgroup_size }: GpuCard): Gpu {
  const device: BufferDevice = {
    limits: facts.limits as unknown as GPUSupportedLimits,
    createBuffer: ({ size }) => ({ size, destroy() {} }) as unknown as GPUBuffer,
    queue: { writeBuffer() {}, submit() {} },
  };
  return { device: device as unknown as GPUDevice, facts, subgroup_size };
}
