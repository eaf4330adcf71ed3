/** Deno's own WebGPU (wgpu). */

import type { WebGpuProvider } from "./provider.ts";

/**
 * Versions of Deno whose `mapAsync` waits for the device before it returns its promise, which is fulfilled 10 ms later. In
 * between the buffer is mapped. Deno lets a program read it, except at its first time, when Deno ends the process.
 */
const EARLY_VERSIONS: readonly string[] = ["2.9.6"];

/** Whether a buffer that was mapped before can be read as soon as `mapAsync` has returned. */
export function isMappedEarly(buffer: GPUBuffer): boolean {
  return "GPUBuffer" in globalThis && buffer instanceof GPUBuffer &&
    EARLY_VERSIONS.includes(Deno.version.deno);
}

/** Deno's WebGPU. Its names are always global; `DENO_WEBGPU_BACKEND` chooses the native interface. */
export const DENO_PROVIDER: WebGpuProvider = {
  name: "deno",
  blocks_reads: true,
  // A build of Deno may lack WebGPU although its types declare it.
  gpu: () => (navigator.gpu as GPU | undefined) ?? null,
  // The description is the device's name, and the device is its number. Nothing tells the driver.
  identify: ({ device, description }) => ({ name: description || device, driver: "" }),
  backend: () => Deno.env.get("DENO_WEBGPU_BACKEND") ?? (Deno.build.os === "darwin" ? "metal" : "auto"),
};
