/** Environment variables for the Vulkan loader and Deno's WebGPU on Linux. */

/** Sets missing variables. Must run before the first request for an adapter. */
export function prepareGpuEnvironment(): void {
  if (Deno.build.os !== "linux") return;
  if (!Deno.env.get("DENO_WEBGPU_BACKEND")) Deno.env.set("DENO_WEBGPU_BACKEND", "vulkan");
  if (!Deno.env.get("XDG_RUNTIME_DIR")) {
    // Software drivers print a warning when it is not set.
    Deno.env.set("XDG_RUNTIME_DIR", Deno.env.get("TMPDIR") ?? "/tmp");
  }
}

/** Variables that select a driver or a device, for `svc doctor`. */
export const LOADER_VARIABLES = [
  "DENO_WEBGPU_BACKEND",
  "XDG_RUNTIME_DIR",
  "VK_DRIVER_FILES",
  "VK_ICD_FILENAMES",
  "VK_LOADER_DRIVERS_SELECT",
  "MESA_VK_DEVICE_SELECT",
  "DRI_PRIME",
  "CUDA_VISIBLE_DEVICES",
] as const;
