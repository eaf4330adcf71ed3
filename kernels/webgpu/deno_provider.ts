/** Deno's own WebGPU (wgpu). */

import type { WebGpuProvider } from "./provider.ts";

/** Deno's WebGPU. Its names are always global; `DENO_WEBGPU_BACKEND` chooses the native interface. */
export const DENO_PROVIDER: WebGpuProvider = {
  name: "deno",
  // A build of Deno may lack WebGPU although its types declare it.
  gpu: () => (navigator.gpu as GPU | undefined) ?? null,
  backend: () => Deno.env.get("DENO_WEBGPU_BACKEND") ?? (Deno.build.os === "darwin" ? "metal" : "auto"),
};
