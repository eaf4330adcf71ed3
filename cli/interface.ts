/** The web interface of this build: in the bundled program itself, or in `ui/dist/` of a source checkout. */

import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { BUILD, isLeftOut } from "../core/version.ts";
import { interfaceFile, type InterfaceFiles } from "../server/http/interface_files.ts";

/** Where `scripts/build_ui.ts` writes it. */
const BUILT = fileURLToPath(new URL("../ui/dist", import.meta.url));

async function gzip(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>> {
  return await new Response(new Blob([bytes]).stream().pipeThrough(new CompressionStream("gzip"))).bytes();
}

async function filesOf(folder: string): Promise<[string, Uint8Array<ArrayBuffer>][]> {
  const files: [string, Uint8Array<ArrayBuffer>][] = [];
  for await (const { name, isDirectory } of Deno.readDir(folder)) {
    const path = join(folder, name);
    if (isDirectory) files.push(...await filesOf(path));
    else files.push([path, await gzip(await Deno.readFile(path))]);
  }
  return files;
}

/** The interface's files; null when this build has none. */
export async function loadInterface(folder: string = BUILT): Promise<InterfaceFiles | null> {
  if (isLeftOut("ui")) return null;
  if (BUILD) {
    const { interface_files: embedded } = BUILD;
    if (!embedded) return null;
    return new Map(
      Object.entries(embedded).map(([path, base64]) => interfaceFile(path, Uint8Array.fromBase64(base64))),
    );
  }
  try {
    const files = await filesOf(folder);
    return new Map(files.map(([path, bytes]) => interfaceFile(relative(folder, path), bytes)));
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw error;
  }
}
