import assert from "node:assert/strict";
import { dawnBuild, dawnInstallCommand, dawnLibrary } from "../../core/dawn_library.ts";
import { ServiceError } from "../../core/errors.ts";
import { assumedGpu } from "../assumed_gpu.ts";
import { isOutOfMemory, openGpu } from "../device.ts";
import { everyKernel } from "../every_kernel_testing.ts";
import { gpuTest } from "../gpu_testing.ts";
import { kernelText } from "../kernel.ts";
import { DAWN_PROVIDER, openDawn } from "./dawn_provider.ts";
import { dawnTest, withEnvironment } from "./dawn_testing.ts";
import { DENO_PROVIDER } from "./deno_provider.ts";
import { testProviderContract } from "./provider_contract.ts";

testProviderContract(gpuTest, DENO_PROVIDER);
testProviderContract(dawnTest, DAWN_PROVIDER);

Deno.test("Deno describes the device; Dawn describes its driver", () => {
  const deno = { device: "9008", description: "NVIDIA H100 80GB HBM3" };
  assert.deepEqual(DENO_PROVIDER.identify(deno), { name: "NVIDIA H100 80GB HBM3", driver: "" });
  assert.deepEqual(DENO_PROVIDER.identify({ ...deno, description: "" }), { name: "9008", driver: "" });
  const dawn = { device: "nvidia-h100-80gb-hbm3", description: "NVIDIA: 550.54" };
  assert.deepEqual(DAWN_PROVIDER.identify(dawn), { name: "nvidia-h100-80gb-hbm3", driver: "NVIDIA: 550.54" });
});

dawnTest("Dawn's SwiftShader has its own name and driver", async () => {
  const { device, facts } = await openGpu({ device: "auto", webgpu: "dawn" });
  device.destroy();
  if (!facts.software) return;
  assert.match(`${facts.name}; ${facts.driver}`, /^swiftshader-device-.*; SwiftShader driver \d/);
});

/** A device of Dawn's backend that computes nothing and has every feature. */
async function nullDevice(features: readonly string[]): Promise<GPUDevice> {
  const adapter = await openDawn("null").requestAdapter();
  return await adapter!.requestDevice({ requiredFeatures: features as GPUFeatureName[] });
}

dawnTest("Dawn's compiler accepts the kernels of GPUs and of software adapters", async () => {
  const device = await nullDevice(["subgroups", "shader-f16"]), { facts } = assumedGpu();
  const heads = [{ width: 64, group: 7 }, { width: 128, group: 2, rules: { window: 9, soft_cap: 50 } }];
  const shapes = { heads, widths: [3, 64, 2050], vocabularies: [131, 1024] };
  for (const [software, subgroup_size] of [[false, 32], [true, 8], [true, 0]] as const) {
    const texts = new Map<string, string>();
    for (const [kernel, name] of everyKernel({ facts: { ...facts, software }, subgroup_size }, shapes)) {
      texts.set(kernelText(kernel), name);
    }
    for (const [code, name] of texts) {
      device.pushErrorScope("validation");
      device.createShaderModule({ code });
      assert.equal((await device.popErrorScope())?.message, undefined, name);
    }
  }
  device.destroy();
});

dawnTest("a device enables the extensions of its features, and no others", async () => {
  const accepts = async (features: readonly string[], code: string) => {
    const device = await nullDevice(features);
    device.pushErrorScope("validation");
    device.createShaderModule({ code });
    const error = await device.popErrorScope();
    device.destroy();
    return error === null;
  };
  const main = (text: string) => `@compute @workgroup_size(4) fn main() { ${text} }`;
  const code = main("_ = subgroupAdd(1u);");
  assert.equal(await accepts(["subgroups"], code), true);
  assert.equal(await accepts([], code), false);
});

dawnTest("a buffer beyond the memory of the device is told as such", async () => {
  const { device, facts } = await openGpu({ device: "auto", webgpu: "dawn" });
  device.pushErrorScope("out-of-memory");
  // SwiftShader's memory is a little less than its largest buffer.
  device.createBuffer({ size: facts.limits.maxBufferSize!, usage: GPUBufferUsage.STORAGE });
  const error = await device.popErrorScope();
  if (facts.software) assert.ok(error && isOutOfMemory(error), String(error?.message));
  device.destroy();
});

Deno.test("Dawn that is not installed, or is another library, is refused with the command that installs it", async () => {
  const folder = await Deno.makeTempDir();
  const refused = (variables: Record<string, string>, reason: string) =>
    withEnvironment(variables, () => {
      assert.throws(() => openDawn("null"), (error) => {
        assert.ok(error instanceof ServiceError);
        assert.deepEqual([error.code, error.message], [
          "device_unavailable",
          `Cannot use webgpu = "dawn": ${reason}`,
        ]);
        return true;
      });
    });
  try {
    const library = `${folder}/dawn.node`, install = `install it: ${dawnInstallCommand()}`;
    await refused({ SVC_DAWN: library }, `${library} does not exist; ${install}`);
    await refused({ SVC_DAWN: folder }, `${folder} cannot be read (it is a folder)`);
    await Deno.writeTextFile(library, "another");
    await refused({ SVC_DAWN: library }, `${library} is not the library of webgpu 0.6.2; ${install}`);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

const LINUX = dawnBuild({ os: "linux", arch: "x86_64" });

Deno.test("Dawn's library lies where SVC_DAWN says, else in the user's folder of data, and the command installs it there", () => {
  const at = (variables: Record<string, string>, build = LINUX) =>
    [dawnLibrary, dawnInstallCommand].map((of) => of((name) => variables[name], build));
  if (Deno.build.os === "windows") return;
  const library = "node_modules/webgpu/dist/linux-x64/dawn.node";
  const install = (folder: string) => `npm install --prefix "${folder}" --ignore-scripts webgpu@0.6.2`;
  assert.deepEqual(at({ HOME: "/h" }), [
    `/h/.local/share/svc/dawn/${library}`,
    install("/h/.local/share/svc/dawn"),
  ]);
  assert.deepEqual(at({ HOME: "/h", XDG_DATA_HOME: "/x" }), [
    `/x/svc/dawn/${library}`,
    install("/x/svc/dawn"),
  ]);
  assert.deepEqual(at({ HOME: "/h", SVC_DAWN: "/d/dawn.node" }), [
    "/d/dawn.node",
    install("/h/.local/share/svc/dawn"),
  ]);
  assert.deepEqual(at({}), [null, null]);
  assert.deepEqual(at({ HOME: "/h" }, null), [null, null]);
  assert.equal(dawnBuild({ os: "freebsd", arch: "x86_64" }), null);
});
