/** Environment variables for the Vulkan loader and the implementations of WebGPU. */

import { BUILT_WEBGPU_PROVIDERS, type BuiltWebGpuProvider } from "../core/webgpu_providers.ts";

const PROVIDERS: readonly BuiltWebGpuProvider[] = Object.values(BUILT_WEBGPU_PROVIDERS);

/** The variables of this machine that are not set, with the values that they get. */
export function missingGpuVariables(): Record<string, string> {
  if (Deno.build.os !== "linux") return {};
  const variables: Record<string, string> = {
    ...Object.assign({}, ...PROVIDERS.map(({ linux_environment }) => linux_environment)),
    // Software drivers print a warning when it is not set.
    XDG_RUNTIME_DIR: Deno.env.get("TMPDIR") ?? "/tmp",
  };
  return Object.fromEntries(Object.entries(variables).filter(([name]) => !Deno.env.get(name)));
}

/** Sets missing variables. Must run before the first request for an adapter. */
export function prepareGpuEnvironment(): void {
  for (const [name, value] of Object.entries(missingGpuVariables())) Deno.env.set(name, value);
}

/** Variables that select a driver or a device, for `svc doctor`. */
export const LOADER_VARIABLES: readonly string[] = [
  ...PROVIDERS.flatMap(({ variables }) => variables),
  "XDG_RUNTIME_DIR",
  "VK_DRIVER_FILES",
  "VK_ICD_FILENAMES",
  "VK_LOADER_DRIVERS_SELECT",
  "MESA_VK_DEVICE_SELECT",
  "DRI_PRIME",
  "CUDA_VISIBLE_DEVICES",
];
