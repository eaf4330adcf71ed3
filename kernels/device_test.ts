import assert from "node:assert/strict";
import type { DeviceRequest } from "../core/device.ts";
import { BUILT_WEBGPU_NAMES } from "../core/webgpu_providers.ts";
import { limitProblem, NEEDED_LIMITS, openGpu } from "./device.ts";
import { gpuTest } from "./gpu_testing.ts";
import { webGpuProvider } from "./webgpu/choose_provider.ts";
import { DENO_PROVIDER } from "./webgpu/deno_provider.ts";
import type { WebGpuProvider } from "./webgpu/provider.ts";

Deno.test("an adapter below what kernels need is refused, by limit and both numbers", () => {
  assert.equal(limitProblem(NEEDED_LIMITS), null);
  const more = Object.fromEntries(Object.entries(NEEDED_LIMITS).map(([name, value]) => [name, 2 * value]));
  assert.equal(limitProblem(more), null);
  for (const [name, needed] of Object.entries(NEEDED_LIMITS)) {
    assert.equal(limitProblem({ ...more, [name]: needed - 1 }), `${name} ${needed - 1}, needed ${needed}`);
  }
  const low = { ...more, maxStorageBuffersPerShaderStage: 4, maxComputeInvocationsPerWorkgroup: 128 };
  assert.equal(
    limitProblem(low),
    `maxStorageBuffersPerShaderStage 4, needed ${NEEDED_LIMITS.maxStorageBuffersPerShaderStage}; ` +
      `maxComputeInvocationsPerWorkgroup 128, needed ${NEEDED_LIMITS.maxComputeInvocationsPerWorkgroup}`,
  );
  assert.match(limitProblem({})!, /maxComputeWorkgroupStorageSize undefined/);
});

gpuTest("the opened device has the limits that kernels need", ({ device, facts }) => {
  for (const [name, needed] of Object.entries(NEEDED_LIMITS)) {
    assert.ok(facts.limits[name]! >= needed, name);
    assert.ok(device.limits[name as keyof GPUSupportedLimits] as number >= needed, name);
  }
});

Deno.test("every WebGPU of this build is chosen by its name, and any other is refused", async () => {
  assert.equal(webGpuProvider("auto").name, BUILT_WEBGPU_NAMES[0]);
  for (const name of BUILT_WEBGPU_NAMES) assert.equal(webGpuProvider(name).name, name);
  await assert.rejects(openGpu({ device: "auto", webgpu: "dawn" }), {
    name: "ServiceError",
    code: "not_built",
    message: 'Cannot use webgpu = "dawn": this build has deno only',
  });
});

/** A provider that returns adapters by description, in order; their devices are too small. */
function lending(...descriptions: string[]): WebGpuProvider {
  const adapter = (description: string) => ({
    info: { description, vendor: "", architecture: "", device: "" },
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
    gpu: () => ({ requestAdapter } as unknown as GPU),
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

gpuTest("a provider's adapters and backend are those of the opened device", async ({ facts }) => {
  let asked = 0;
  const provider: WebGpuProvider = {
    name: "dawn",
    gpu: () => ({ requestAdapter: (options) => (asked++, DENO_PROVIDER.gpu()!.requestAdapter(options)) }),
    backend: () => "its own",
  };
  const { device, facts: lent } = await openGpu({ device: "auto", webgpu: "deno" }, provider);
  device.destroy();
  assert.deepEqual(lent, { ...facts, backend: "its own" });
  assert.ok(asked > 0);
});
