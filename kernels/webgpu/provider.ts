/** Who lends a WebGPU. What differs between providers is here; everything else is the standard's. */

/** The names of `model.webgpu`; `auto` leaves the choice to the program. */
export type WebGpuName = "auto" | "deno" | "dawn";

/** A WebGPU of this process. */
export interface WebGpuProvider {
  readonly name: Exclude<WebGpuName, "auto">;
  /**
   * The entry to WebGPU; null where this process has none. Afterwards the standard's constants (`GPUBufferUsage`,
   * `GPUMapMode`, …) are global.
   */
  gpu(): Pick<GPU, "requestAdapter"> | null;
  /** The native interface below it, as far as the provider knows: "vulkan", "metal", else "auto". */
  backend(): string;
}
