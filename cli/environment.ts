/** Variables that the Vulkan loader and Deno's WebGPU want on Linux. */

/** Sets what is missing; what the caller set stays. Must run before the first adapter is asked for. */
export function prepareGpuEnvironment(): void {
  if (Deno.build.os !== "linux") return;
  if (!Deno.env.get("DENO_WEBGPU_BACKEND")) Deno.env.set("DENO_WEBGPU_BACKEND", "vulkan");
  if (!Deno.env.get("XDG_RUNTIME_DIR")) {
    // Software drivers complain on standard error when it is not set at all.
    Deno.env.set("XDG_RUNTIME_DIR", Deno.env.get("TMPDIR") ?? "/tmp");
  }
}

/** Variables that choose a driver or a device, as `svc doctor` prints them. */
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
