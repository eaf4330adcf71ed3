/** Opens a WebGPU device and finds its properties. */

import type { DeviceFacts, DeviceRequest, GpuCard } from "../core/device.ts";
import { ServiceError } from "../core/errors.ts";
import { Allocator } from "./tensor.ts";
import type { LayoutTable } from "./layout_table.ts";
import { webGpuProvider } from "./webgpu/choose_provider.ts";
import type { WebGpuProvider } from "./webgpu/provider.ts";
import subgroupProbeWgsl from "./shared/subgroup_probe.wgsl" with { type: "text" };

/** An open device. */
export interface Gpu extends GpuCard {
  readonly device: GPUDevice;
  /** The measured layouts of products; absent: those that the grids suggest. */
  readonly layouts?: LayoutTable;
  /** The layouts of products that the driver computes wrong, by their names; absent: none is known. */
  readonly wrong_layouts?: readonly string[];
  /** Whether the driver computes products of segments wrong, or what goes on with them; absent: that is not known. */
  readonly wrong_segments?: boolean;
}

/** Products of matrices by a subgroup, which only Dawn has, and only where the driver has them. */
export const SUBGROUP_MATRIX = "chromium-experimental-subgroup-matrix";

/** Requested where available. Deno provides native features on request even though the adapter does not list them. */
const WANTED_FEATURES = ["shader-f16", "subgroups", "timestamp-query", SUBGROUP_MATRIX];

const WANTED_LIMITS = [
  "maxBufferSize",
  "maxStorageBufferBindingSize",
  "maxStorageBuffersPerShaderStage",
  "maxStorageTexturesPerShaderStage",
  "maxComputeWorkgroupStorageSize",
  "maxComputeInvocationsPerWorkgroup",
  "maxComputeWorkgroupSizeX",
  "maxComputeWorkgroupSizeY",
  "maxComputeWorkgroupsPerDimension",
] as const;

/** The limits that kernels need; for the first one WebGPU's default is too low. */
export const NEEDED_LIMITS: Readonly<Record<string, number>> = {
  maxStorageBuffersPerShaderStage: 9,
  maxComputeWorkgroupStorageSize: 16_384,
  maxComputeInvocationsPerWorkgroup: 256,
};

/** What software adapters need besides: their kernels read and store textures (`textures.ts`). */
export const SOFTWARE_LIMITS: Readonly<Record<string, number>> = { maxStorageTexturesPerShaderStage: 8 };

/** Names the limits of an adapter that are too low for the kernels; null when none is. */
export function limitProblem(
  limits: Readonly<Record<string, number>>,
  is_software: boolean,
): string | null {
  const needed_limits = { ...NEEDED_LIMITS, ...(is_software ? SOFTWARE_LIMITS : {}) };
  const low = Object.entries(needed_limits).filter(([name, needed]) => !((limits[name] ?? 0) >= needed));
  return low.length === 0
    ? null
    : low.map(([name, needed]) => `${name} ${limits[name]}, needed ${needed}`).join("; ");
}

/** A request for a device, and how its adapter is taken. */
export interface OpenRequest extends DeviceRequest {
  /** Waits until the adapter that is found may be used, before a device is opened on it; absent: it may at once. */
  take?: (found: Pick<DeviceFacts, "name" | "software" | "webgpu">) => Promise<void>;
}

const SOFTWARE_NAME = /llvmpipe|lavapipe|swiftshader|software|basic render/i;

/**
 * Opens the requested device with one implementation of WebGPU, which it trusts; `kernels/canary/` chooses one for
 * `auto` and tests it.
 *
 * @param provider The WebGPU implementation; absent: the requested one, Deno's for `auto`.
 * @param reason Why it is this one, for the device's facts.
 * @throws {ServiceError} `device_unavailable`, with the fix; what `take` throws.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 *
 * const gpu = await openGpu({ device: "auto", webgpu: "auto" }).catch((error) => {
 *   console.log(`skipped: ${error.message}`);
 * });
 * if (gpu) {
 *   assert.equal(limitProblem(gpu.facts.limits, gpu.facts.software), null);
 *   gpu.device.destroy();
 * }
 * ```
 */
export async function openGpu(
  request: OpenRequest,
  provider: WebGpuProvider = webGpuProvider(request.webgpu === "auto" ? "deno" : request.webgpu),
  reason: string = request.webgpu === "auto" ? "the one of the runtime" : "as configured",
): Promise<Gpu> {
  const adapter = await findAdapter(provider, request.device);
  const { name, software, webgpu } = identityOf(adapter, provider);
  await request.take?.({ name, software, webgpu });
  const features: string[] = [];
  for (const feature of WANTED_FEATURES) {
    if (feature === SUBGROUP_MATRIX && !multipliesTiles(adapter)) continue;
    if (await grants(provider, request.device, feature)) features.push(feature);
  }
  const requiredLimits: Record<string, number> = {};
  for (const limit of WANTED_LIMITS) requiredLimits[limit] = adapter.limits[limit];
  const problem = limitProblem(requiredLimits, software);
  if (problem) {
    throw new ServiceError(
      "device_unavailable",
      `Cannot use ${name}: its limits are too low (${problem})`,
    );
  }
  const device = await adapter.requestDevice({
    requiredFeatures: features as GPUFeatureName[],
    requiredLimits,
  });
  const subgroup_size = features.includes("subgroups") ? await probeSubgroupSize(device) : 0;
  return { device, facts: describe(adapter, features, provider, reason), subgroup_size };
}

/** Whether an uncaptured error or one of a scope says that the device's memory is full. Each implementation has a class. */
export function isOutOfMemory(error: GPUError): boolean {
  return error.constructor.name === "GPUOutOfMemoryError";
}

/** A configuration of products that an adapter lists, as Dawn shows it. */
interface SubgroupMatrixConfig {
  componentType: string;
  resultComponentType: string;
  M: number;
  N: number;
  K: number;
}

/**
 * Whether every subgroup of an adapter multiplies tiles of 16 × 16 numbers in f16 with sums in f32, and has one size,
 * as `kernels/matmul/` wants them.
 */
export function multipliesTiles({ info }: Pick<GPUAdapter, "info">): boolean {
  const { subgroupMatrixConfigs: configs = [], subgroupMinSize, subgroupMaxSize } = info as GPUAdapterInfo & {
    subgroupMatrixConfigs?: readonly SubgroupMatrixConfig[];
  };
  return subgroupMinSize === subgroupMaxSize &&
    configs.some((config) =>
      config.componentType === "f16" && config.resultComponentType === "f32" &&
      config.M === 16 && config.N === 16 && config.K === 16
    );
}

async function findAdapter(provider: WebGpuProvider, wanted: DeviceRequest["device"]): Promise<GPUAdapter> {
  const preferences: GPURequestAdapterOptions[] = wanted === "software"
    ? [{ forceFallbackAdapter: true }, {}]
    : [{ powerPreference: "high-performance" }, {}];
  const gpu = provider.gpu(), found: GPUAdapter[] = [];
  for (const options of preferences) {
    const adapter = await gpu?.requestAdapter(options);
    if (adapter) found.push(adapter);
  }
  const fitting = found.find((adapter) => isSoftware(adapter) === (wanted === "software")) ??
    (wanted === "auto" ? found[0] : undefined);
  if (fitting) return fitting;
  throw new ServiceError(
    "device_unavailable",
    wanted === "gpu"
      ? `Cannot find a GPU with a WebGPU driver: install the vendor's Vulkan driver, or set model.device = "auto"`
      : "Cannot find a WebGPU adapter: install a Vulkan driver (apt-get install mesa-vulkan-drivers libvulkan1)",
    { wanted },
  );
}

/** The facts that tell an adapter from others. */
function identityOf(
  adapter: GPUAdapter,
  provider: WebGpuProvider,
): Pick<DeviceFacts, "name" | "driver" | "software" | "webgpu"> {
  const { name, driver } = provider.identify(adapter.info);
  return { name: name || "unknown", driver, software: isSoftware(adapter), webgpu: provider.name };
}

function isSoftware(adapter: GPUAdapter): boolean {
  const { description, device, architecture } = adapter.info;
  return SOFTWARE_NAME.test(`${description} ${device} ${architecture}`);
}

async function grants(
  provider: WebGpuProvider,
  wanted: DeviceRequest["device"],
  feature: string,
): Promise<boolean> {
  try {
    // An adapter gives only one device, so each attempt needs its own adapter.
    const device = await (await findAdapter(provider, wanted)).requestDevice({
      requiredFeatures: [feature as GPUFeatureName],
    });
    device.destroy();
    return true;
  } catch {
    return false;
  }
}

function describe(
  adapter: GPUAdapter,
  features: string[],
  provider: WebGpuProvider,
  webgpu_reason: string,
): DeviceFacts {
  const { vendor } = adapter.info;
  const limits: Record<string, number> = {};
  for (const name of WANTED_LIMITS) limits[name] = adapter.limits[name];
  return {
    ...identityOf(adapter, provider),
    vendor,
    webgpu_reason,
    backend: provider.backend(),
    features,
    limits,
    vram_bytes: null,
  };
}

/** Measures the subgroup size with a kernel, because no limit of the adapter gives it reliably. */
async function probeSubgroupSize(device: GPUDevice): Promise<number> {
  const allocator = new Allocator(device), out = allocator.create("probe", [1], "u32").buffer;
  const staging = allocator.createBuffer("probe", 4, GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST);
  device.pushErrorScope("validation");
  const module = device.createShaderModule({ code: subgroupProbeWgsl });
  const pipeline = device.createComputePipeline({ layout: "auto", compute: { module } });
  const failed = await device.popErrorScope();
  if (failed) {
    allocator.destroy();
    return 0;
  }
  const entries = [{ binding: 0, resource: { buffer: out } }];
  const encoder = device.createCommandEncoder();
  const pass = encoder.beginComputePass();
  pass.setPipeline(pipeline);
  pass.setBindGroup(0, device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries }));
  pass.dispatchWorkgroups(1);
  pass.end();
  encoder.copyBufferToBuffer(out, 0, staging, 0, 4);
  device.queue.submit([encoder.finish()]);
  await staging.mapAsync(GPUMapMode.READ);
  const size = new Uint32Array(staging.getMappedRange().slice(0))[0]!;
  allocator.destroy();
  return size;
}
