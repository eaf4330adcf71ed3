/** Chooses the WebGPU provider by name; the only file that knows all of them. */

import { ServiceError } from "../../core/errors.ts";
import { BUILT_WEBGPU_NAMES, type BuiltWebGpuName, type WebGpuName } from "../../core/webgpu_providers.ts";
import { DENO_PROVIDER } from "./deno_provider.ts";
import type { WebGpuProvider } from "./provider.ts";

const PROVIDERS: Readonly<Record<BuiltWebGpuName, WebGpuProvider>> = {
  deno: DENO_PROVIDER,
};

/** The provider of `model.webgpu`. @throws {ServiceError} `not_built` for a provider that this build does not have. */
export function webGpuProvider(name: WebGpuName): WebGpuProvider {
  const built = BUILT_WEBGPU_NAMES.find((one) => name === "auto" || one === name);
  if (built !== undefined) return PROVIDERS[built];
  const reason = `this build has ${BUILT_WEBGPU_NAMES.join(", ")} only`;
  throw new ServiceError("not_built", `Cannot use webgpu = "${name}": ${reason}`);
}
