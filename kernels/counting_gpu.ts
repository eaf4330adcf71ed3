/** A device that only counts allocations. Constructors run on it as on a real device. */

import type { GpuCard } from "../core/device.ts";
import type { Gpu } from "./device.ts";
import type { BufferDevice } from "./tensor.ts";

/** A device with these limits and without memory. It does nothing that it is given to do. */
export function countingGpu({ facts, subgroup_size }: GpuCard): Gpu {
  const pass = { end() {} };
  const encoder = { beginComputePass: () => pass, copyBufferToBuffer() {}, finish: () => ({}) };
  const device: BufferDevice & Pick<GPUDevice, "createCommandEncoder"> = {
    limits: facts.limits as unknown as GPUSupportedLimits,
    createBuffer: ({ size }) => ({ size, destroy() {} }) as unknown as GPUBuffer,
    createCommandEncoder: () => encoder as unknown as GPUCommandEncoder,
    queue: { writeBuffer() {}, submit() {} },
  };
  return { device: device as unknown as GPUDevice, facts, subgroup_size };
}
