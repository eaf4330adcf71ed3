/** The WebGPU implementations that `model.webgpu` names, and what each needs of its process. */

import { DAWN_LIBRARY_ENV, DAWN_VARIABLES, dawnLibrary } from "./dawn_library.ts";
import type { PermissionNeeds } from "./permissions.ts";

/** All names of the specification. */
export const WEBGPU_PROVIDERS = ["deno", "dawn"] as const;

/** A name of {@link WEBGPU_PROVIDERS}. */
export type WebGpuProviderName = typeof WEBGPU_PROVIDERS[number];

/** The values of `model.webgpu`; for `auto` see `kernels/canary/open_checked.ts`. */
export type WebGpuName = "auto" | WebGpuProviderName;

/** An entry of {@link BUILT_WEBGPU_PROVIDERS}. */
export interface BuiltWebGpuProvider {
  /** The permissions of a thread that uses it; called by threads that may read the environment. */
  needs: () => PermissionNeeds;
  /** Environment variables that choose its driver or library. */
  variables: readonly string[];
  /** Environment variables with their values on Linux. A variable that is set already keeps its value. */
  linux_environment: Readonly<Record<string, string>>;
}

/** Implementations by name. */
export type WebGpuTable = Readonly<Partial<Record<WebGpuProviderName, BuiltWebGpuProvider>>>;

/** The implementations. */
export const BUILT_WEBGPU_PROVIDERS = {
  deno: {
    needs: () => ({ env: ["DENO_WEBGPU_BACKEND"] }),
    variables: ["DENO_WEBGPU_BACKEND"],
    linux_environment: { DENO_WEBGPU_BACKEND: "vulkan" },
  },
  dawn: {
    needs: () => {
      const library = dawnLibrary(), files = library === null ? [] : [library];
      return { env: DAWN_VARIABLES, read: files, ffi: files };
    },
    variables: [DAWN_LIBRARY_ENV],
    linux_environment: {},
  },
} as const satisfies Required<WebGpuTable>;

/** The permissions of a thread that uses an implementation: of all with `auto`; none if `built` lacks it. */
export function webGpuNeeds(
  name: WebGpuName,
  built: WebGpuTable = BUILT_WEBGPU_PROVIDERS,
): readonly PermissionNeeds[] {
  const used = name === "auto" ? Object.values(built) : [built[name]];
  return used.flatMap((provider) => provider ? [provider.needs()] : []);
}
