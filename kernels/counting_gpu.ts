/** A device that counts what would be allocated on it: constructors run on it as they do on the real one. */

import type { Gpu } from "./device.ts";
import type { BufferDevice } from "./tensor.ts";

/** What the choice of kernels and the sizes of buffers depend on. */
export type GpuCard = Pick<Gpu, "facts" | "subgroup_size">;

/** A device with these limits whose buffers hold nothing. Nothing can be run on it. */
export function countingGpu({ facts, subgroup_size }: GpuCard): Gpu {
  const device: BufferDevice = {
    limits: facts.limits as unknown as GPUSupportedLimits,
    createBuffer: ({ size }) => ({ size, destroy() {} }) as unknown as GPUBuffer,
    queue: { writeBuffer() {}, submit() {} },
  };
  return { device: device as unknown as GPUDevice, facts, subgroup_size };
}
