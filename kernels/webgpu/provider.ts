/** The interface of a WebGPU implementation. It contains what differs between them; everything else is standard. */

import type { WebGpuProviderName } from "../../core/webgpu_providers.ts";

/** A WebGPU implementation in this process. */
export interface WebGpuProvider {
  readonly name: WebGpuProviderName;
  /**
   * The entry to WebGPU; null if this process has none. After the call these names of the standard are global: the
   * constants `GPUBufferUsage`, `GPUMapMode` and `GPUShaderStage`, and the error class `GPUOutOfMemoryError`, of which
   * uncaptured errors are instances. The program uses no other names of the standard as values.
   */
  gpu(): Pick<GPU, "requestAdapter"> | null;
  /** The native interface below it, if the provider knows: "vulkan", "metal", else "auto". */
  backend(): string;
}
