/** The interface of a WebGPU implementation. It contains what differs between them; everything else is standard. */

import type { WebGpuProviderName } from "../../core/webgpu_providers.ts";

/** A WebGPU implementation in this process. */
export interface WebGpuProvider {
  readonly name: WebGpuProviderName;
  /**
   * The entry to WebGPU; null if this process has none. After the call the standard's constants (`GPUBufferUsage`,
   * `GPUMapMode`, …) are global.
   */
  gpu(): Pick<GPU, "requestAdapter"> | null;
  /** The native interface below it, if the provider knows: "vulkan", "metal", else "auto". */
  backend(): string;
}
