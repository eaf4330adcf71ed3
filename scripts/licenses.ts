/** The licences of packages that are part of the bundled program. */

import { join } from "node:path";
import { fileURLToPath } from "node:url";

const OWN_LICENSE = fileURLToPath(new URL("../LICENSE", import.meta.url));
const LOCK = fileURLToPath(new URL("../deno.lock", import.meta.url));

export interface BundledPackage {
  name: string;
  version: string;
  /** The package's files. */
  folder: string;
}

/** What a package says of itself. */
interface Manifest {
  license: string;
  author?: string | { name: string };
}

/** The text of a package's licence file, or of the licence that it names. @throws When neither is known. */
async function licenseFile(
  { name, folder }: BundledPackage,
  { license, author }: Manifest,
): Promise<string> {
  const names = (await Array.fromAsync(Deno.readDir(folder))).map((entry) => entry.name).sort();
  const found = names.find((entry) => /^(licen[cs]e|copying)(\.\w+)?$/i.test(entry));
  if (found === undefined) {
    const holder = typeof author === "object" ? author.name : author?.replace(/ <.*/, "");
    if (license === "MIT" && holder !== undefined) return mitText(holder);
    throw new Error(`Cannot list the licence of ${name}: its package has no licence file`);
  }
  return (await Deno.readTextFile(join(folder, found))).replaceAll("\r\n", "\n").trim();
}

/** The MIT licence, whose text is the same for all; this program's own file has it. */
async function mitText(holder: string): Promise<string> {
  const own = await Deno.readTextFile(OWN_LICENSE);
  const terms = own.slice(own.indexOf("Permission is"), own.indexOf("\n\nFiles in fixtures/"));
  return `Copyright (c) ${holder}\n\n${terms.trim()}`;
}

/** The packages with their licences, by name. @throws When a package is not in the lock file, or has no licence. */
export async function licensesText(packages: readonly BundledPackage[]): Promise<string> {
  const lock: { npm: Record<string, unknown> } = JSON.parse(await Deno.readTextFile(LOCK));
  const locked = new Set(Object.keys(lock.npm).map((key) => key.replace(/_.*/, "")));
  const parts = ["svc.js contains these packages.\n"];
  for (const bundled of packages.toSorted((a, b) => a.name < b.name ? -1 : 1)) {
    const { name, version, folder } = bundled;
    if (!locked.has(`${name}@${version}`)) {
      throw new Error(`Cannot list the licence of ${name} ${version}: deno.lock has another version`);
    }
    const manifest: Manifest = JSON.parse(await Deno.readTextFile(join(folder, "package.json")));
    const heading = `${name} ${version} (${manifest.license})`;
    parts.push(`${heading}\n${"=".repeat(heading.length)}\n\n${await licenseFile(bundled, manifest)}\n`);
  }
  return parts.join("\n");
}
