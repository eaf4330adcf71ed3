/** Opens a device for work: chooses the WebGPU implementation of `auto`, and leaves out what a driver gets wrong. */

import { isDeviceTaken } from "../../core/device_lock.ts";
import { ServiceError } from "../../core/errors.ts";
import type { WebGpuProviderName } from "../../core/webgpu_providers.ts";
import { type Gpu, openGpu, type OpenRequest } from "../device.ts";
import { webGpuProvider } from "../webgpu/choose_provider.ts";
import type { WebGpuProvider } from "../webgpu/provider.ts";
import { leaveOut, testForms } from "./canary.ts";

/** Finds the provider of a name. */
export type Providers = (name: WebGpuProviderName) => WebGpuProvider;

/**
 * Opens the requested device. With `auto` it is Dawn's if its library is installed, its adapter is a GPU and its
 * products and attention are right, else Deno's; the facts tell which one and why, and what is left out. The forms of a GPU
 * are tested first (`canary.ts`), those of a software adapter are not: its kernels are the ones that all tests run. A GPU is
 * taken before it is opened and tested, because both need memory that a program which has it may use.
 *
 * @throws {ServiceError} `device_unavailable`, with the fix; `out_of_memory` when a GPU has none left for the tests; what
 * `take` throws.
 */
export async function openCheckedGpu(
  request: OpenRequest,
  providers: Providers = webGpuProvider,
): Promise<Gpu> {
  const { device, webgpu } = request;
  const open = (name: WebGpuProviderName, reason: string) =>
    openTested(() => openGpu({ ...request, webgpu: name }, providers(name), reason));
  if (webgpu !== "auto") return await open(webgpu, "as configured");
  if (device === "software") return await open("deno", "Dawn is chosen for GPUs only");
  try {
    const gpu = await open("dawn", "it is installed, and its products and attention are right");
    if (!gpu.facts.software) return gpu;
    gpu.device.destroy();
    return await open("deno", `Dawn finds no GPU but the software adapter ${gpu.facts.name}`);
  } catch (error) {
    if (!(error instanceof ServiceError && error.code === "device_unavailable")) throw error;
    // Another program that has the GPU has it through every implementation.
    if (isDeviceTaken(error)) throw error;
    return await open("deno", error.message);
  }
}

async function openTested(open: () => Promise<Gpu>): Promise<Gpu> {
  const gpu = await open();
  if (gpu.facts.software) return gpu;
  const report = await testForms(open);
  if (report.refused === null) return leaveOut(gpu, report);
  gpu.device.destroy();
  const { webgpu, name } = gpu.facts;
  throw new ServiceError(
    "device_unavailable",
    `Cannot use webgpu = "${webgpu}" on ${name}: ${report.refused}; update its driver`,
  );
}
