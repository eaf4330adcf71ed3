/** The interface of a WebGPU implementation. It contains what differs between them; everything else is standard. */

import type { WebGpuProviderName } from "../../core/webgpu_providers.ts";

/** A WebGPU implementation in this process. */
export interface WebGpuProvider {
  readonly name: WebGpuProviderName;
  /** Whether a read blocks the thread until the device has done all that was submitted, later work included. */
  readonly blocks_reads: boolean;
  /**
   * The entry to WebGPU; null if this process has none. Its devices take the kernels' WGSL, which enables no
   * extension: a device enables those of its features. The program uses no names of the standard as values but the
   * constants `GPUBufferUsage`, `GPUMapMode`, `GPUShaderStage` and `GPUTextureUsage`, which Deno always has.
   *
   * @throws {ServiceError} `device_unavailable`, with the fix, if something must be installed first.
   */
  gpu(): Pick<GPU, "requestAdapter"> | null;
  /** What an adapter's information says: the device's name and its driver; "" for what it does not tell. */
  identify(info: Pick<GPUAdapterInfo, "device" | "description">): { name: string; driver: string };
  /** The native interface below it, if the provider knows: "vulkan", "metal", "d3d12", else "auto". */
  backend(): string;
}
