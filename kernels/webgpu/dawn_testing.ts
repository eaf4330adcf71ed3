/** Where tests find Dawn's library and a driver that Dawn accepts. */

import { fileURLToPath } from "node:url";
import { DAWN_LIBRARY_ENV, dawnBuild } from "../../core/dawn_library.ts";

/** SwiftShader, as Debian's package `chromium` has it. Dawn refuses the llvmpipe of Mesa 22. */
const SWIFTSHADER = "/usr/lib/chromium/vk_swiftshader_icd.json";

/** Adds a driver to those that the Vulkan loader finds. */
const ADDED_DRIVERS = "VK_ADD_DRIVER_FILES";

function exists(path: string): boolean {
  try {
    return Deno.statSync(path).isFile;
  } catch {
    return false;
  }
}

/** The environment in which a process has Dawn and a driver for it, or why there is none. */
export function dawnEnvironment(): Record<string, string> | string {
  const installed = new URL(
    `../../tests/dawn/node_modules/webgpu/dist/${dawnBuild()?.folder}/dawn.node`,
    import.meta.url,
  );
  const library = Deno.env.get(DAWN_LIBRARY_ENV) || fileURLToPath(installed);
  if (!exists(library)) return "Dawn is not installed: ./dev test installs it";
  if (Deno.build.os !== "linux") return { [DAWN_LIBRARY_ENV]: library };
  if (!exists(SWIFTSHADER)) return "no SwiftShader for Dawn: apt-get install chromium";
  return { [DAWN_LIBRARY_ENV]: library, [ADDED_DRIVERS]: SWIFTSHADER };
}

/** Sets variables while something runs, and puts back what was there. */
export async function withEnvironment<T>(
  variables: Readonly<Record<string, string>>,
  body: () => T | Promise<T>,
): Promise<T> {
  const before = Object.keys(variables).map((name) => [name, Deno.env.get(name)] as const);
  for (const [name, value] of Object.entries(variables)) Deno.env.set(name, value);
  try {
    return await body();
  } finally {
    for (const [name, value] of before) {
      if (value === undefined) Deno.env.delete(name);
      else Deno.env.set(name, value);
    }
  }
}

/** A test that needs Dawn. Without it, or without a driver for it, it is skipped with the reason. */
export function dawnTest(name: string, body: () => Promise<void> | void): void {
  const environment = dawnEnvironment();
  if (typeof environment === "string") {
    Deno.test({ name: `${name} (skipped: ${environment})`, ignore: true, fn: () => {} });
  } else Deno.test(name, () => withEnvironment(environment, body));
}
