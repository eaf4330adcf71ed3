/** The WebGPU providers by name; the only file that knows all of them. */

import type { WebGpuProviderName } from "../../core/webgpu_providers.ts";
import { DAWN_PROVIDER } from "./dawn_provider.ts";
import { DENO_PROVIDER } from "./deno_provider.ts";
import type { WebGpuProvider } from "./provider.ts";

const PROVIDERS: Readonly<Record<WebGpuProviderName, WebGpuProvider>> = {
  deno: DENO_PROVIDER,
  dawn: DAWN_PROVIDER,
};

/** The provider of a name. */
export function webGpuProvider(name: WebGpuProviderName): WebGpuProvider {
  return PROVIDERS[name];
}
