import assert from "node:assert/strict";
import type { DeviceRequest } from "../core/device.ts";
import { WEBGPU_PROVIDERS } from "../core/webgpu_providers.ts";
import { limitProblem, multipliesTiles, NEEDED_LIMITS, openGpu, SOFTWARE_LIMITS } from "./device.ts";
import { gpuTest } from "./gpu_testing.ts";
import { webGpuProvider } from "./webgpu/choose_provider.ts";
import { DENO_PROVIDER } from "./webgpu/deno_provider.ts";
import type { WebGpuProvider } from "./webgpu/provider.ts";

Deno.test("an adapter below what kernels need is refused, by limit and both numbers", () => {
  for (const is_software of [false, true]) {
    const all = is_software ? { ...NEEDED_LIMITS, ...SOFTWARE_LIMITS } : NEEDED_LIMITS;
    assert.equal(limitProblem(all, is_software), null);
    const more = Object.fromEntries(Object.entries(all).map(([name, value]) => [name, 2 * value]));
    assert.equal(limitProblem(more, is_software), null);
    for (const [name, needed] of Object.entries(all)) {
      const lower = { ...more, [name]: needed - 1 };
      assert.equal(limitProblem(lower, is_software), `${name} ${needed - 1}, needed ${needed}`);
    }
    const low = { ...more, maxStorageBuffersPerShaderStage: 4, maxComputeInvocationsPerWorkgroup: 128 };
    assert.equal(
      limitProblem(low, is_software),
      `maxStorageBuffersPerShaderStage 4, needed ${NEEDED_LIMITS.maxStorageBuffersPerShaderStage}; ` +
        `maxComputeInvocationsPerWorkgroup 128, needed ${NEEDED_LIMITS.maxComputeInvocationsPerWorkgroup}`,
    );
  }
  assert.match(limitProblem({}, false)!, /maxComputeWorkgroupStorageSize undefined/);
});

gpuTest("the opened device has the limits that kernels need", ({ device, facts }) => {
  const needed_limits = { ...NEEDED_LIMITS, ...(facts.software ? SOFTWARE_LIMITS : {}) };
  for (const [name, needed] of Object.entries(needed_limits)) {
    assert.ok(facts.limits[name]! >= needed, name);
    assert.ok(device.limits[name as keyof GPUSupportedLimits] as number >= needed, name);
  }
});

Deno.test("every WebGPU is chosen by its name", () => {
  for (const name of WEBGPU_PROVIDERS) assert.equal(webGpuProvider(name).name, name);
});

Deno.test("products of tiles need a configuration of 16 × 16 × 16 in f16 with f32 sums, and one size of subgroups", () => {
  const fitting = { componentType: "f16", resultComponentType: "f32", M: 16, N: 16, K: 16 };
  const multiplies = (subgroupMatrixConfigs: unknown, subgroupMinSize = 32, subgroupMaxSize = 32) => {
    const info = { subgroupMatrixConfigs, subgroupMinSize, subgroupMaxSize };
    return multipliesTiles({ info } as unknown as GPUAdapter);
  };
  assert.equal(multiplies([{ ...fitting, M: 8 }, fitting]), true);
  for (
    const other of [{ componentType: "u8" }, { resultComponentType: "f16" }, { M: 8 }, { N: 8 }, { K: 8 }]
  ) {
    assert.equal(multiplies([{ ...fitting, ...other }]), false, JSON.stringify(other));
  }
  assert.equal(multiplies([fitting], 32, 64), false);
  assert.equal(multiplies([]), false);
  assert.equal(multiplies(undefined), false);
});

/** A provider that returns adapters by description, in order; their devices are too small. */
function lending(...descriptions: string[]): WebGpuProvider {
  const adapter = (description: string) => ({
    info: { description, vendor: "", architecture: "", device: "1" },
    limits: {},
    requestDevice: () => Promise.reject(new Error("no device")),
  });
  const left = descriptions.map(adapter);
  const requestAdapter = ({ forceFallbackAdapter = false } = {}) => {
    const software = left.find(({ info }) => info.description === "SwiftShader");
    return Promise.resolve((forceFallbackAdapter ? software : left[0]) ?? null);
  };
  return {
    name: "dawn",
    blocks_reads: false,
    gpu: () => ({ requestAdapter } as unknown as GPU),
    identify: DENO_PROVIDER.identify,
    backend: () => "none",
  };
}

Deno.test("the requested device is chosen among the provider's adapters", async () => {
  const chosen = async (device: DeviceRequest["device"], provider: WebGpuProvider) =>
    await openGpu({ device, webgpu: "auto" }, provider).then(
      String,
      ({ code, message }) => `${code} ${message}`,
    );
  const both = lending("Radeon", "SwiftShader");
  assert.match(await chosen("auto", both), /^device_unavailable Cannot use Radeon: its limits are too low/);
  assert.match(await chosen("gpu", both), /Cannot use Radeon/);
  assert.match(await chosen("software", both), /Cannot use SwiftShader/);
  assert.match(await chosen("auto", lending("SwiftShader")), /Cannot use SwiftShader/);
  assert.match(await chosen("gpu", lending("SwiftShader")), /^device_unavailable Cannot find a GPU/);
  assert.match(
    await chosen("software", lending("Radeon")),
    /^device_unavailable Cannot find a WebGPU adapter/,
  );
  const nothing: WebGpuProvider = { ...both, gpu: () => null };
  assert.match(await chosen("auto", nothing), /^device_unavailable Cannot find a WebGPU adapter/);
});

gpuTest("a provider's adapters and backend are those of the opened device", async () => {
  let asked = 0;
  const provider: WebGpuProvider = {
    name: "dawn",
    blocks_reads: false,
    gpu: () => ({ requestAdapter: (options) => (asked++, DENO_PROVIDER.gpu()!.requestAdapter(options)) }),
    identify: ({ description }) => ({ name: `its ${description}`, driver: "its driver" }),
    backend: () => "its own",
  };
  const { device: plain, facts } = await openGpu({ device: "auto", webgpu: "deno" });
  plain.destroy();
  const { device, facts: lent } = await openGpu({ device: "auto", webgpu: "deno" }, provider, "a test");
  device.destroy();
  const own = { name: `its ${facts.name}`, driver: "its driver", backend: "its own" };
  assert.deepEqual(lent, { ...facts, ...own, webgpu: "dawn", webgpu_reason: "a test" });
  assert.ok(asked > 0);
});
