/** The WebGPU implementations that `model.webgpu` names. */

/** All names of the specification. */
export const WEBGPU_PROVIDERS = ["deno", "dawn"] as const;

/** A name of {@link WEBGPU_PROVIDERS}. */
export type WebGpuProviderName = typeof WEBGPU_PROVIDERS[number];

/** The implementations of this build; `auto` is the first. */
export const BUILT_WEBGPU_PROVIDERS = ["deno"] as const satisfies readonly WebGpuProviderName[];
