/** Dawn, through the library of the npm package `webgpu`, which is loaded when it is first used. */

import { createHash } from "node:crypto";
import process from "node:process";
import { DAWN_VERSION, dawnBuild, dawnInstallCommand, dawnLibrary } from "../../core/dawn_library.ts";
import { ServiceError } from "../../core/errors.ts";
import { reasonOf } from "../../core/system_errors.ts";
import type { WebGpuProvider } from "./provider.ts";

/** What the library exports. */
interface DawnModule {
  create(options: readonly string[]): GPU;
}

/** Extensions of WGSL that Dawn wants enabled where Deno refuses to read it, by the feature that a device needs for them. */
const EXTENSIONS: Readonly<Record<string, string>> = {
  "subgroups": "subgroups",
  "chromium-experimental-subgroup-matrix": "chromium_experimental_subgroup_matrix",
};

/** Toggles: for features that Chromium calls experimental, and for f16 on NVIDIA, which Dawn hides. */
const TOGGLES = ["allow_unsafe_apis", "vulkan_enable_f16_on_nvidia", "use_vulkan_memory_model"];

const BACKENDS: Readonly<Partial<Record<typeof Deno.build.os, string>>> = {
  linux: "vulkan",
  darwin: "metal",
  windows: "d3d12",
};

/** All instances. Collecting one that still has a device or a command to finish crashes the process. */
const instances: GPU[] = [];

let opened: Pick<GPU, "requestAdapter"> | null = null;

/** Dawn's WebGPU. */
export const DAWN_PROVIDER: WebGpuProvider = {
  name: "dawn",
  blocks_reads: false,
  gpu: () => opened ??= openDawn(),
  // The description is the driver's. The name has small letters and hyphens only: "nvidia-h100-80gb-hbm3".
  identify: ({ device, description }) => ({ name: device, driver: description }),
  backend: () => BACKENDS[Deno.build.os] ?? "auto",
};

/**
 * Another instance of Dawn, which lives as long as the process.
 *
 * @param backend As Dawn names it; `null` computes nothing and has every feature, for tests of the compiler.
 * @throws {ServiceError} As {@link WebGpuProvider.gpu}.
 */
export function openDawn(backend: string = DAWN_PROVIDER.backend()): Pick<GPU, "requestAdapter"> {
  const gpu = loadLibrary().create([
    ...backend === "auto" ? [] : [`backend=${backend}`],
    `enable-dawn-features=${TOGGLES.join(",")}`,
  ]);
  instances.push(gpu);
  return {
    async requestAdapter(options) {
      const adapter = await gpu.requestAdapter(options);
      if (adapter === null) return null;
      const requestDevice = adapter.requestDevice.bind(adapter);
      adapter.requestDevice = async (descriptor) => enableExtensions(await requestDevice(descriptor));
      return adapter;
    },
  };
}

/**
 * What the compiler cannot prove: bounds from `subgroup_max`, and places of matrices that follow from the number of the
 * subgroup, are the same in all lanes of a subgroup.
 */
const DIAGNOSTICS = ["subgroup_uniformity", "chromium.subgroup_matrix_uniformity"]
  .map((rule) => `diagnostic(off, ${rule}); `).join("");

/** Makes a device enable the extensions of its features in every shader, in front of the first line. */
function enableExtensions(device: GPUDevice): GPUDevice {
  const enabled = Object.entries(EXTENSIONS).filter(([feature]) =>
    device.features.has(feature as GPUFeatureName)
  );
  const directives = enabled.map(([, extension]) => `enable ${extension}; `).join("");
  const createShaderModule = device.createShaderModule.bind(device);
  device.createShaderModule = ({ code, ...rest }) =>
    createShaderModule({ ...rest, code: DIAGNOSTICS + directives + code });
  return device;
}

function loadLibrary(): DawnModule {
  const build = dawnBuild(), library = dawnLibrary();
  if (build === null) {
    throw unusable(`the package webgpu has no library for ${Deno.build.os} ${Deno.build.arch}`);
  }
  if (library === null) {
    throw unusable("HOME is not set; set SVC_DAWN to the file dawn.node of the package webgpu");
  }
  const command = dawnInstallCommand(), install = command === null ? "install it" : `install it: ${command}`;
  let bytes: Uint8Array;
  try {
    bytes = Deno.readFileSync(library);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) throw unusable(`${library} does not exist; ${install}`);
    throw unusable(`${library} cannot be read (${reasonOf(error)})`);
  }
  if (createHash("sha256").update(bytes).digest("hex") !== build.sha256) {
    throw unusable(`${library} is not the library of webgpu ${DAWN_VERSION}; ${install}`);
  }
  const loaded = { exports: {} };
  try {
    process.dlopen(loaded, library);
  } catch (error) {
    throw unusable(`${library} does not load (${(error as Error).message})`);
  }
  return loaded.exports as DawnModule;
}

function unusable(reason: string): ServiceError {
  return new ServiceError("device_unavailable", `Cannot use webgpu = "dawn": ${reason}`);
}
