/** Chooses the WebGPU provider by name; the only file that knows all of them. */

import { ServiceError } from "../../core/errors.ts";
import { DENO_PROVIDER } from "./deno_provider.ts";
import type { WebGpuName, WebGpuProvider } from "./provider.ts";

/** The provider of `model.webgpu`; `auto` is Deno's. @throws {ServiceError} `not_built` for "dawn". */
export function webGpuProvider(name: WebGpuName): WebGpuProvider {
  if (name === "dawn") {
    throw new ServiceError("not_built", `Cannot use webgpu = "dawn": this build has Deno's WebGPU only`);
  }
  return DENO_PROVIDER;
}
