/** Environment variables for the Vulkan loader and the implementations of WebGPU. */

import { BUILT_WEBGPU_PROVIDERS, type BuiltWebGpuProvider } from "../core/webgpu_providers.ts";

const PROVIDERS: readonly BuiltWebGpuProvider[] = Object.values(BUILT_WEBGPU_PROVIDERS);

/**
 * Threads of Mesa's software driver where there are two or three processors. It splits a task into as many parts as it has
 * threads, by default as many as processors. Linux may leave two of them on one processor for tens of milliseconds while the
 * other idles; with more parts than processors, a free thread takes what is left.
 */
export const SOFTWARE_THREADS = 4;

/**
 * The variables of this machine that are not set, with the values that they get.
 *
 * @param processors How many this process may use.
 */
export function missingGpuVariables(processors = navigator.hardwareConcurrency): Record<string, string> {
  if (Deno.build.os !== "linux") return {};
  const variables: Record<string, string> = {
    ...Object.assign({}, ...PROVIDERS.map(({ linux_environment }) => linux_environment)),
    // Software drivers print a warning when it is not set.
    XDG_RUNTIME_DIR: Deno.env.get("TMPDIR") ?? "/tmp",
    ...processors > 1 && processors < SOFTWARE_THREADS && { LP_NUM_THREADS: String(SOFTWARE_THREADS) },
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
  "LP_NUM_THREADS",
  "VK_DRIVER_FILES",
  "VK_ICD_FILENAMES",
  "VK_LOADER_DRIVERS_SELECT",
  "MESA_VK_DEVICE_SELECT",
  "DRI_PRIME",
  "CUDA_VISIBLE_DEVICES",
];
