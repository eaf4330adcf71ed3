/** The GPU forms of all kernels, as the launch functions choose them for the models of `models.ts`. */

import { assumedGpu } from "../../kernels/assumed_gpu.ts";
import { everyKernel, type KernelShapes } from "../../kernels/every_kernel_testing.ts";
import { type Kernel, kernelText } from "../../kernels/kernel.ts";

/**
 * The heads of 0.5B, 1.5B and 8B, then those of Gemma 2; widths and vocabularies of the models, then those that are no
 * multiples of 4.
 */
const SHAPES: KernelShapes = {
  heads: [
    { width: 64, group: 7 },
    { width: 128, group: 6 },
    { width: 128, group: 4 },
    { width: 256, group: 2, rules: { window: 4096, soft_cap: 50 } },
  ],
  widths: [128, 896, 4096, 2050],
  vocabularies: [151_936, 131],
};

/** The forms by name. Kernels of one text are one form, under the name of the first. */
export function gpuForms(): Map<string, Kernel> {
  const forms = new Map<string, Kernel>(), texts = new Set<string>();
  for (const [kernel, name] of everyKernel(assumedGpu(), SHAPES)) {
    const text = kernelText(kernel);
    if (!texts.has(text)) forms.set(name, kernel);
    texts.add(text);
  }
  return forms;
}

/** The names of the forms by their text. */
export function formNames(): Map<string, string> {
  return new Map([...gpuForms()].map(([name, kernel]) => [kernelText(kernel), name]));
}
