/**
 * Builds the web interface: `ui/dist/` gets `index.html`, `THIRD_PARTY_LICENSES.txt` and `assets/`, whose files are named
 * by their content. The same sources give the same bytes on every machine. Needs nothing but Deno and the packages of
 * `ui/`. With `--when-changed` it builds only when the interface is missing or older than its sources.
 */

import { createHash } from "node:crypto";
import { basename, extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { isPresent, writeFileAtomic } from "../core/files.ts";
import { type BundledPackage, LICENSES_FILE, licensesText } from "./licenses.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

/** Where the built interface lies. */
export const INTERFACE_FOLDER = join(ROOT, "ui", "dist");

const ENTRY = "ui/main.tsx";

/** What the first page may load, compressed. */
export const MAX_FIRST_LOAD_BYTES = 150 * 1024;

/** Hexadecimal digits of a file's name. */
const HASH_DIGITS = 10;

/** Runs Deno in the root and returns its output. @throws When it fails. */
async function deno(command: string, args: readonly string[]): Promise<string> {
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [command, ...args],
    cwd: ROOT,
  }).output();
  const decoder = new TextDecoder();
  if (!success) throw new Error(`Cannot ${command} ${args.at(-1)}: ${decoder.decode(stderr)}`);
  return decoder.decode(stdout);
}

/** What `deno info --json` tells of the packages of an entry. */
interface Packages {
  modules: { npmPackage?: string }[];
  npmPackages: Record<string, { name: string; version: string; dependencies: string[]; localPath: string }>;
}

/** The packages that an entry's modules import, and those that these need. The bundler may leave parts of them out. */
async function packagesOf(entry: string): Promise<BundledPackage[]> {
  const { modules, npmPackages }: Packages = JSON.parse(await deno("info", ["--json", entry]));
  const found = new Map<string, BundledPackage>();
  const open = modules.flatMap(({ npmPackage }) => npmPackage ?? []);
  while (open.length > 0) {
    const key = open.pop()!;
    if (found.has(key)) continue;
    const { name, version, dependencies, localPath } = npmPackages[key]!;
    found.set(key, { name, version, folder: localPath });
    open.push(...dependencies);
  }
  return [...found.values()];
}

/** Runs Deno's bundler (esbuild) on an entry and returns its outputs by their base names. */
async function bundled(entry: string): Promise<Map<string, string>> {
  const folder = await Deno.makeTempDir();
  try {
    const flags = ["--quiet", "--platform", "browser", "--format", "esm", "--minify", "--code-splitting"];
    await deno("bundle", [...flags, "--outdir", folder, entry]);
    const outputs = new Map<string, string>();
    for (const path of await filesBelow(folder)) outputs.set(basename(path), await Deno.readTextFile(path));
    return outputs;
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** All files of a folder and those below it, sorted; none when it is not there. */
export async function filesBelow(folder: string): Promise<string[]> {
  const paths: string[] = [];
  try {
    for await (const { name, isDirectory } of Deno.readDir(folder)) {
      const path = join(folder, name);
      if (isDirectory) paths.push(...await filesBelow(path));
      else paths.push(path);
    }
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
  return paths.sort();
}

function hashOf(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, HASH_DIGITS);
}

/**
 * Names each file by its content. A file that imports another has the other's new name in its text, so names are given
 * from the leaves on. The bundler's own names come from paths, which differ between machines.
 *
 * @returns The files by name, and the new name of each old one.
 * @throws {Error} When files import each other in a circle.
 */
export function namedByContent(
  outputs: ReadonlyMap<string, string>,
): { files: Map<string, string>; names: Map<string, string> } {
  const files = new Map<string, string>(), names = new Map<string, string>();
  const name = (old: string, importers: readonly string[]): string => {
    const known = names.get(old);
    if (known !== undefined) return known;
    if (importers.includes(old)) throw new Error(`Cannot name ${old}: it imports itself`);
    let text = outputs.get(old)!;
    for (const other of outputs.keys()) {
      // An import is a string that ends in the name, with whatever folders the bundler made of the source's path.
      const reference = new RegExp(`(["'])\\.{1,2}/(?:[^"']*/)?${RegExp.escape(other)}\\1`, "g");
      if (other === old || !reference.test(text)) continue;
      const renamed = name(other, [...importers, old]);
      text = text.replace(reference, (_, quote) => `${quote}./${renamed}${quote}`);
    }
    const stem = old.slice(0, old.indexOf(".")), given = `${stem}-${hashOf(text)}${extname(old)}`;
    files.set(given, text);
    names.set(old, given);
    return given;
  };
  for (const old of outputs.keys()) name(old, []);
  return { files, names };
}

async function gzippedBytes(text: string): Promise<number> {
  const stream = new Blob([text]).stream().pipeThrough(new CompressionStream("gzip"));
  return (await new Response(stream).bytes()).length;
}

/** The size of what the first page loads: its HTML, its styles and the modules that are imported statically. */
async function firstLoadBytes(
  html: string,
  { files, entries }: { files: ReadonlyMap<string, string>; entries: readonly string[] },
): Promise<number> {
  const seen = new Set<string>(), open = [...entries];
  while (open.length > 0) {
    const name = open.pop()!;
    if (seen.has(name)) continue;
    seen.add(name);
    for (const [, imported] of files.get(name)!.matchAll(/(?:from|import)["']\.\/([^"']+)["']/g)) {
      open.push(imported!);
    }
  }
  const sizes = [html, ...[...seen].map((name) => files.get(name)!)].map(gzippedBytes);
  return (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0);
}

/**
 * Builds the interface into a folder, which it empties first. Of several processes one builds at a time.
 *
 * @returns The bytes of the first load, compressed.
 * @throws {Error} When the sources cannot be bundled, or the first load is too large.
 */
export async function buildInterface(folder: string = INTERFACE_FOLDER): Promise<number> {
  using _lock = await lockBuilds();
  return await build(folder);
}

/** Builds it when it is missing or older than its sources. @returns Null: it was not. @throws Like {@link buildInterface}. */
export async function buildWhenChanged(folder: string = INTERFACE_FOLDER): Promise<number | null> {
  using _lock = await lockBuilds();
  return await isBuilt(folder) ? null : await build(folder);
}

/** Waits for other processes that build. */
async function lockBuilds(): Promise<Deno.FsFile> {
  await Deno.mkdir(join(ROOT, ".cache"), { recursive: true });
  const file = await Deno.open(join(ROOT, ".cache", "build_ui.lock"), { create: true, write: true });
  await file.lock(true);
  return file;
}

async function build(folder: string): Promise<number> {
  // One after the other: Deno installs its bundler at its first use, and of two at once one fails.
  const scripts = await bundled(ENTRY), styles = await bundled("ui/styles/main.css");
  const packages = await packagesOf(ENTRY), page = await Deno.readTextFile(join(ROOT, "ui", "index.html"));
  const { files, names } = namedByContent(new Map([...scripts, ...styles]));
  const script = names.get("main.js")!, style = names.get("main.css")!;
  const html = page.replace("./styles/main.css", `./assets/${style}`)
    .replace("./main.tsx", `./assets/${script}`);
  const first_load = await firstLoadBytes(html, { files, entries: [script, style] });
  if (first_load > MAX_FIRST_LOAD_BYTES) {
    throw new Error(
      `Cannot build the interface: its first load has ${first_load} bytes, the limit is ${MAX_FIRST_LOAD_BYTES}`,
    );
  }
  await Deno.remove(folder, { recursive: true }).catch((error) => {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  });
  await Deno.mkdir(join(folder, "assets"), { recursive: true });
  for (const [name, text] of files) await Deno.writeTextFile(join(folder, "assets", name), text);
  await Deno.writeTextFile(join(folder, LICENSES_FILE), await licensesText("The web interface", packages));
  // Last, so that a folder with a page has everything that the page needs.
  await writeFileAtomic(join(folder, "index.html"), html);
  return first_load;
}

/** What the built interface is made of. */
const SOURCES = ["ui", "deno.json", "deno.lock"].map((name) => join(ROOT, name));

/** When the newest of files and those in folders was written, in milliseconds; 0 without one. */
async function newestChange(paths: readonly string[]): Promise<number> {
  let newest = 0;
  for (const path of paths) {
    const { isDirectory, mtime } = await Deno.stat(path);
    const files = isDirectory ? await filesBelow(path) : [];
    const inner = files.filter((file) => !file.startsWith(INTERFACE_FOLDER));
    newest = Math.max(newest, isDirectory ? await newestChange(inner) : Number(mtime));
  }
  return newest;
}

/** Whether the interface in a folder is there and not older than its sources. */
export async function isBuilt(folder: string = INTERFACE_FOLDER): Promise<boolean> {
  const page = join(folder, "index.html");
  return await isPresent(page) && await newestChange([page]) >= await newestChange(SOURCES);
}

if (import.meta.main) {
  const bytes = await (Deno.args.includes("--when-changed") ? buildWhenChanged() : buildInterface());
  if (bytes !== null) {
    console.log(`wrote ${INTERFACE_FOLDER}: the first load has ${(bytes / 1024).toFixed(1)} KiB compressed`);
  }
}
