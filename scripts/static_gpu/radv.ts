/**
 * Compiles the GPU forms with Mesa's RADV for AMD GPUs that are not there (`RADV_FORCE_FAMILY`): Deno opens such a device
 * through a small library (vulkan_shim.c), so kernels go the way that they go on a machine with that GPU.
 */

import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { ServiceError } from "../../core/errors.ts";
import type { CompiledForms } from "./compile_forms.ts";

/** The GPUs that are compiled for, by their names in RADV: RDNA 2 (gfx1030) and RDNA 3. */
export const FAMILIES = ["navi21", "gfx1100"] as const;
export type Family = typeof FAMILIES[number];

/** The forms of each family. */
export type CompiledFamilies = Record<Family, CompiledForms>;

const HERE = fileURLToPath(new URL(".", import.meta.url));
const LIBRARIES = "/usr/lib/x86_64-linux-gnu";
const DRIVER = "/usr/share/vulkan/icd.d/radeon_icd.x86_64.json";
const COMPILER = "cc";

const NEEDED_FILES = [DRIVER, `${LIBRARIES}/libvulkan_radeon.so`, `${LIBRARIES}/libvulkan.so.1`];

/** Why the forms cannot be compiled on this machine, with what to install; null when they can. */
export async function missingCompiler(files = NEEDED_FILES, compiler = COMPILER): Promise<string | null> {
  if (Deno.build.os !== "linux" || Deno.build.arch !== "x86_64") return "it needs Linux on x86-64";
  const missing: string[] = [];
  for (const path of files) if (!await Deno.stat(path).catch(() => null)) missing.push(path);
  if (!await starts(compiler)) missing.push(`C compiler (${compiler})`);
  if (missing.length === 0) return null;
  return `there is no ${
    missing.join(" and no ")
  }: apt-get install mesa-vulkan-drivers libvulkan1 gcc libc6-dev`;
}

async function starts(program: string): Promise<boolean> {
  try {
    await new Deno.Command(program, { args: ["--version"] }).output();
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

/**
 * Compiles the forms whose names contain the text, for all families at the same time.
 *
 * @throws {ServiceError} `internal` with what a compiler said.
 */
export async function compileFamilies(only = ""): Promise<CompiledFamilies> {
  return await withShim(async (folder) => {
    const compiled = await Promise.all(
      FAMILIES.map(async (family) => {
        const program = { what: `Cannot compile for ${family}`, args: ["static_gpu/compile_forms.ts", only] };
        return [family, JSON.parse(await runOnFamily(family, folder, program)) as CompiledForms] as const;
      }),
    );
    return Object.fromEntries(compiled) as CompiledFamilies;
  });
}

/**
 * What a script prints whose WebGPU device is a GPU of this family that is not there: it runs no command.
 *
 * @param args The script, from the folder `scripts`, and its arguments.
 * @throws {ServiceError} `internal` with what the script said.
 */
export async function runWithoutGpu(family: Family, args: readonly string[]): Promise<string> {
  return await withShim((folder) => runOnFamily(family, folder, { what: `Cannot run ${args[0]}`, args }));
}

/** Builds vulkan_shim.c in a folder for `body`. */
async function withShim<T>(body: (folder: string) => Promise<T>): Promise<T> {
  const folder = await Deno.makeTempDir();
  try {
    const output = `${folder}/libvulkan.so.1`;
    const args = ["-shared", "-fPIC", "-O1", "-o", output, `${HERE}vulkan_shim.c`, "-ldl"];
    await run("Cannot build vulkan_shim.c", COMPILER, { args });
    return await body(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

async function runOnFamily(
  family: Family,
  folder: string,
  { what, args }: { what: string; args: readonly string[] },
): Promise<string> {
  const [script, ...rest] = args;
  const env = {
    RADV_FORCE_FAMILY: family,
    VK_DRIVER_FILES: DRIVER,
    VK_ICD_FILENAMES: DRIVER,
    VULKAN_LOADER: `${LIBRARIES}/libvulkan.so.1`,
    LD_LIBRARY_PATH: folder,
    PIPELINES: `${folder}/${family}`,
    DENO_WEBGPU_BACKEND: "vulkan",
    MESA_SHADER_CACHE_DISABLE: "true",
    XDG_RUNTIME_DIR: folder,
  };
  const given = ["run", "-A", "--no-check", join(HERE, "..", script!), ...rest];
  return await run(what, Deno.execPath(), { args: given, env });
}

/** What the program prints. */
async function run(what: string, program: string, options: Deno.CommandOptions): Promise<string> {
  const { success, stdout, stderr } = await new Deno.Command(program, options).output();
  const decoder = new TextDecoder();
  if (!success) throw new ServiceError("internal", `${what}: ${decoder.decode(stderr).trim()}`);
  return decoder.decode(stdout);
}
