import assert from "node:assert/strict";
import { limitProblem, NEEDED_LIMITS, openGpu } from "./device.ts";
import { gpuTest } from "./testing.ts";

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

gpuTest("the device that was opened lends what kernels need", ({ device, facts }) => {
  for (const [name, needed] of Object.entries(NEEDED_LIMITS)) {
    assert.ok(facts.limits[name]! >= needed, name);
    assert.ok(device.limits[name as keyof GPUSupportedLimits] as number >= needed, name);
  }
});

Deno.test("a WebGPU that this build does not have is refused", async () => {
  await assert.rejects(openGpu({ device: "auto", webgpu: "dawn" }), {
    name: "ServiceError",
    code: "not_built",
  });
});
