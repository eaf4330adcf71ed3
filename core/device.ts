/** A device as plain data: which one is wanted, and what is known of it. */

import type { WebGpuName, WebGpuProviderName } from "./webgpu_providers.ts";

/** Which device to use. `auto`: a GPU if there is one, else a software adapter. */
export interface DeviceRequest {
  device: "auto" | "gpu" | "software";
  webgpu: WebGpuName;
}

/** Facts from the driver. WebGPU does not report the size of the memory: `vram_bytes` is then null. */
export interface DeviceFacts {
  /** As its WebGPU implementation spells it. */
  name: string;
  vendor: string;
  /** The WebGPU implementation, and why it is this one. */
  webgpu: WebGpuProviderName;
  webgpu_reason: string;
  backend: string;
  /** The driver and its version, where the implementation tells it; else "". Deno's WebGPU tells none. */
  driver: string;
  /** True for software adapters (llvmpipe, SwiftShader). */
  software: boolean;
  features: string[];
  limits: Record<string, number>;
  vram_bytes: number | null;
  /**
   * The forms of kernels that are not used, with the reasons: the driver does not compile them, computes them wrong, or gives
   * them other bits than those that they must have. Absent: none is known.
   */
  left_out?: string[];
  /** What the measuring of layouts did; absent where nothing was measured. */
  tuning?: string;
}

/** The device facts that determine kernels and buffer sizes. `subgroup_size` is 0 without subgroup operations. */
export interface GpuCard {
  readonly facts: DeviceFacts;
  readonly subgroup_size: number;
}
