/** The WebGPU implementations that `model.webgpu` names, and what each needs of its process. */

import type { PermissionNeeds } from "./permissions.ts";

/** All names of the specification. */
export const WEBGPU_PROVIDERS = ["deno", "dawn"] as const;

/** A name of {@link WEBGPU_PROVIDERS}. */
export type WebGpuProviderName = typeof WEBGPU_PROVIDERS[number];

/** The values of `model.webgpu`; `auto` is the first implementation of this build. */
export type WebGpuName = "auto" | WebGpuProviderName;

/** An entry of {@link BUILT_WEBGPU_PROVIDERS}. */
export interface BuiltWebGpuProvider {
  /** The permissions of a thread that uses it. */
  needs: PermissionNeeds;
  /** Environment variables with their values on Linux. A variable that is set already keeps its value. */
  linux_environment: Readonly<Record<string, string>>;
}

/** Implementations by name. */
export type WebGpuTable = Readonly<Partial<Record<WebGpuProviderName, BuiltWebGpuProvider>>>;

/** The implementations of this build. */
export const BUILT_WEBGPU_PROVIDERS = {
  deno: {
    needs: { env: ["DENO_WEBGPU_BACKEND"] },
    linux_environment: { DENO_WEBGPU_BACKEND: "vulkan" },
  },
} as const satisfies WebGpuTable;

/** The name of an implementation of this build. */
export type BuiltWebGpuName = keyof typeof BUILT_WEBGPU_PROVIDERS;

/** The names of {@link BUILT_WEBGPU_PROVIDERS}, in its order. */
export const BUILT_WEBGPU_NAMES = Object.keys(BUILT_WEBGPU_PROVIDERS) as BuiltWebGpuName[];

/** The permissions of a thread that uses an implementation; none if `built` lacks it, because no thread can use it. */
export function webGpuNeeds(
  name: WebGpuName,
  built: WebGpuTable = BUILT_WEBGPU_PROVIDERS,
): PermissionNeeds {
  const provider = name === "auto" ? Object.values(built)[0] : built[name];
  return provider?.needs ?? {};
}
