/**
 * The process that compiles GPU forms for one GPU: it opens the device that radv.ts prepares, and prints what the compiler
 * says of each form as JSON. Its argument is a text that the names of the forms contain.
 */

import { compiledKernel, compileFailure } from "../../kernels/kernel.ts";
import { webGpuProvider } from "../../kernels/webgpu/choose_provider.ts";
import { gpuForms } from "./forms.ts";
import { parsePipeline, type Statistics } from "./statistics.ts";

/** The output of the process. */
export interface CompiledForms {
  /** Such as `Mesa 22.3.6`. */
  compiler: string;
  forms: Record<string, Statistics>;
}

/** The limits that the program asks of a GPU are within these. */
const LIMITS = { maxComputeInvocationsPerWorkgroup: 1024, maxStorageBuffersPerShaderStage: 16 };

async function compileForms(path: string, only: string): Promise<CompiledForms> {
  const adapter = await webGpuProvider("deno").gpu()?.requestAdapter();
  if (!adapter) throw new Error("Cannot compile for this GPU: Deno finds no adapter");
  const features = ["shader-f16", "subgroups"] as GPUFeatureName[];
  const device = await adapter.requestDevice({ requiredFeatures: features, requiredLimits: LIMITS });
  const take = () => {
    const text = Deno.readTextFileSync(path);
    Deno.truncateSync(path);
    return text;
  };
  // Deno compiles pipelines of its own when it opens a device.
  const compiler = /^compiler (.+)$/m.exec(take())?.[1];
  if (!compiler) {
    throw new Error("Cannot compile for this GPU: the library between Deno and Vulkan is not in use");
  }
  const forms: Record<string, Statistics> = {};
  for (const [name, kernel] of gpuForms()) {
    if (!name.includes(only)) continue;
    compiledKernel(device, kernel);
    const text = take();
    if (text === "") {
      await new Promise((resolve) => setTimeout(resolve, 0));
      throw compileFailure(device) ?? new Error(`Cannot compile ${name}: the driver gives no reason`);
    }
    forms[name] = parsePipeline(text);
  }
  return { compiler, forms };
}

if (import.meta.main) {
  console.log(JSON.stringify(await compileForms(Deno.env.get("PIPELINES")!, Deno.args[0] ?? "")));
  // The device was never one: leaving by the usual way would wait for it.
  Deno.exit(0);
}
