import assert from "node:assert/strict";
import type { DeviceFacts, DeviceRequest } from "../../core/device.ts";
import { ServiceError } from "../../core/errors.ts";
import type { WebGpuProviderName } from "../../core/webgpu_providers.ts";
import { assumedGpu } from "../assumed_gpu.ts";
import { openGpu } from "../device.ts";
import { gpuTest, lacksF16 } from "../gpu_testing.ts";
import { chooseLayout, chooseSegmentsTile, layoutName, TILES } from "../matmul/matmul_layout.ts";
import { dawnTest } from "../webgpu/dawn_testing.ts";
import { DENO_PROVIDER } from "../webgpu/deno_provider.ts";
import type { WebGpuProvider } from "../webgpu/provider.ts";
import { leaveOut, testForms, type Variant } from "./canary.ts";
import { openCheckedGpu } from "./open_checked.ts";

const REQUEST: DeviceRequest = { device: "auto", webgpu: "deno" };

/** The form that only some devices have and that this one can run: it rounds operands to f16. */
const F16: Variant = { name: "operands in f16", feature: "shader-f16", compute: "f16" };

/** A driver that compiles another text than it is given. */
function wrongDriver(change: (code: string) => string): WebGpuProvider {
  return {
    ...DENO_PROVIDER,
    gpu: () => ({
      async requestAdapter(options) {
        const adapter = await DENO_PROVIDER.gpu()!.requestAdapter(options);
        if (!adapter) return null;
        const requestDevice = adapter.requestDevice.bind(adapter);
        adapter.requestDevice = async (descriptor) => {
          const device = await requestDevice(descriptor);
          const createShaderModule = device.createShaderModule.bind(device);
          device.createShaderModule = (given) => createShaderModule({ ...given, code: change(given.code) });
          return device;
        };
        return adapter;
      },
    }),
  };
}

const opener = (change: (code: string) => string) => () => openGpu(REQUEST, wrongDriver(change));

/** Doubles the operands that are rounded, as a driver with a wrong conversion might. */
const wrongF16 = (code: string) => code.replace("return operand4(clamp(", "return 2.0h * operand4(clamp(");
/** Leaves out the last step of every product. */
const wrongPlain = (code: string) => code.replaceAll("params.depth / 4u", "(params.depth / 4u - 1u)");

/** Rounds rows where many are computed at once: integers stay as they are. */
const wrongTile = (code: string) =>
  code.includes(", scale1, s)")
    ? code.replace(/x_operand\(.*, scale0, s\)/g, (load) => `quantizeToF16(${load})`)
    : code;

gpuTest("a right driver keeps all of its forms", async () => {
  const open = opener((code) => code), report = await testForms(open, [F16]);
  assert.deepEqual(report, { plain: null, wrong: [], wrong_layouts: [] });
  const gpu = await open();
  assert.deepEqual(leaveOut(gpu, report).facts, gpu.facts);
  gpu.device.destroy();
});

gpuTest("a form that the driver computes wrong is left out, and the others stay", async () => {
  const open = opener(wrongF16), report = await testForms(open, [F16]);
  assert.equal(report.plain, null);
  assert.deepEqual(report.wrong.map(({ variant }) => variant), [F16]);
  assert.match(report.wrong[0]!.reason, /^row \d+, column \d+ is -?\d+ instead of -?\d+$/);
  const gpu = await open(), { features } = leaveOut(gpu, report).facts;
  assert.deepEqual(features, gpu.facts.features.filter((feature) => feature !== "shader-f16"));
  gpu.device.destroy();
}, lacksF16);

gpuTest("a form whose f16 weights the driver reads wrong is left out", async () => {
  const turned = (code: string) =>
    code.includes("fn load_f16(") ? code.replace("return values[i];", "return values[i].yxzw;") : code;
  const open = async () => {
    const gpu = await opener(turned)();
    return { ...gpu, facts: { ...gpu.facts, software: false } };
  };
  const { plain, wrong } = await testForms(open, [F16]);
  assert.equal(plain, null);
  assert.deepEqual(wrong.map(({ variant }) => variant), [F16]);
}, lacksF16);

gpuTest("a form that the driver does not compile is left out", async () => {
  const report = await testForms(opener((code) => code.replace("operand4(clamp(", "operand4(clamped(")), [
    F16,
  ]);
  assert.equal(report.plain, null);
  assert.match(report.wrong[0]!.reason, /^Cannot compile kernel matmul_nt_f32_f16_\w+ at operand_f16\.wgsl:/);
}, lacksF16);

gpuTest(
  "a layout that the driver computes wrong or does not compile is left out, and another takes its place",
  async () => {
    // Only the tile of 128 × 128 has 32 vectors of rows.
    const opened = (change: (sum: string) => string) => async () => {
      const change_large = (code: string) =>
        code.includes("tile_x: array<array<vec4<f32>, 32>, 16>")
          ? code.replace("sum0_0 = fma(", change)
          : code;
      const gpu = await opener(change_large)();
      return { ...gpu, facts: { ...gpu.facts, software: false } };
    };
    const size = { rows: 4096, columns: 4096, depth: 4096 };
    for (const change of [() => "sum0_0 = 1.0000001 * fma(", () => "sum0_0 = fused("]) {
      const open = opened(change), report = await testForms(open, []);
      assert.deepEqual(report, { plain: null, wrong: [], wrong_layouts: ["128 × 128", "128 × 128, split"] });
      const gpu = leaveOut(await open(), report);
      assert.equal(layoutName(chooseLayout(gpu, size)), "64 × 64");
      assert.equal(chooseSegmentsTile(gpu, { ...size, compute: "f32" }, [4096]), TILES.middle);
      gpu.device.destroy();
    }
    const narrow = { ...size, columns: 16, depth: 256 };
    const chosen = (gpu: Parameters<typeof chooseLayout>[0], of = size) => layoutName(chooseLayout(gpu, of));
    assert.deepEqual(
      [[], ["64 × 16"], ["64 × 16, split"]].map((wrong_layouts) =>
        chosen({ ...assumedGpu(), wrong_layouts }, narrow)
      ),
      ["64 × 16", "16 × 64", "64 × 16"],
    );
    const few = { rows: 8, columns: 896, depth: 896 };
    assert.equal(chosen({ ...assumedGpu(), wrong_layouts: ["16 × 64, split"] }, few), "16 × 64");
    assert.equal(chosen(assumedGpu(), few), "16 × 64, split");
  },
);

gpuTest("a driver whose plain form is wrong is told as such", async () => {
  const { plain, wrong } = await testForms(opener(wrongPlain), [F16]);
  assert.match(plain!, /^row 0, column \d+ is -?\d+ instead of -?\d+$/);
  assert.deepEqual(wrong, []);
});

gpuTest(
  "a form whose tiles give a row other bits is wrong, although it multiplies integers right",
  async () => {
    const { plain } = await testForms(opener(wrongTile), []);
    assert.match(plain!, /^row \d+, column \d+ is -?\d+\.\d+ instead of -?\d+\.\d+$/);
  },
);

/** Provider of adapters whose devices are real but have another name: a GPU, unless the name says otherwise. */
function named(
  name: WebGpuProviderName,
  description: string,
  change = (code: string) => code,
): WebGpuProvider {
  const inner = wrongDriver(change);
  return {
    ...{ name, backend: () => "test" },
    gpu: () => ({
      async requestAdapter(options) {
        const adapter = await inner.gpu()!.requestAdapter(options);
        const info = { vendor: "", architecture: "", device: "", description };
        return adapter && new Proxy(adapter, {
          get: (target, key) => {
            const value = Reflect.get(target, key, target);
            return key === "info" ? info : typeof value === "function" ? value.bind(target) : value;
          },
        });
      },
    }),
  };
}

/** The implementation that is chosen, with its reason. */
async function chosen(request: DeviceRequest, dawn: WebGpuProvider | ServiceError): Promise<DeviceFacts> {
  const { device, facts } = await openCheckedGpu(request, (name) => {
    if (name === "deno") return DENO_PROVIDER;
    if (dawn instanceof ServiceError) throw dawn;
    return dawn;
  });
  device.destroy();
  return facts;
}

gpuTest(
  "auto takes Dawn for a GPU with right products only, and says why it takes Deno's",
  async () => {
    const auto: DeviceRequest = { device: "auto", webgpu: "auto" };
    const why = async (request: DeviceRequest, dawn: WebGpuProvider | ServiceError) => {
      const { webgpu, webgpu_reason } = await chosen(request, dawn);
      return `${webgpu}: ${webgpu_reason}`;
    };
    assert.equal(
      await why(auto, named("dawn", "A GPU")),
      "dawn: it is installed, and its products are right",
    );
    assert.equal(
      await why(auto, named("dawn", "SwiftShader")),
      "deno: Dawn finds no GPU but the software adapter SwiftShader",
    );
    assert.equal(
      await why({ ...auto, device: "software" }, named("dawn", "A GPU")),
      "deno: Dawn is chosen for GPUs only",
    );
    const missing = new ServiceError("device_unavailable", "Cannot use Dawn: install it");
    assert.equal(await why(auto, missing), "deno: Cannot use Dawn: install it");
    assert.match(
      await why(auto, named("dawn", "A GPU", wrongPlain)),
      /^deno: Cannot use webgpu = "dawn" on A GPU: its products are wrong \(row 0, .*\); update its driver$/,
    );
    assert.equal(await why(REQUEST, missing), "deno: as configured");
    await assert.rejects(chosen({ ...auto, webgpu: "dawn" }, missing), missing);
  },
);

dawnTest("Dawn's products are right, in the forms of its adapter", async () => {
  const report = await testForms(() => openGpu({ device: "auto", webgpu: "dawn" }));
  assert.deepEqual(report, { plain: null, wrong: [], wrong_layouts: [] });
});
