/** The licences of packages that are part of the bundled program. */

import { join } from "node:path";
import { fileURLToPath } from "node:url";

const LOCK = fileURLToPath(new URL("../deno.lock", import.meta.url));

export interface BundledPackage {
  name: string;
  version: string;
  /** The package's files. */
  folder: string;
}

/** The text of a package's licence file. @throws When it has none. */
async function licenseFile({ name, folder }: BundledPackage): Promise<string> {
  const names = (await Array.fromAsync(Deno.readDir(folder))).map((entry) => entry.name).sort();
  const found = names.find((entry) => /^(licen[cs]e|copying)(\.\w+)?$/i.test(entry));
  if (found === undefined) {
    throw new Error(`Cannot list the licence of ${name}: its package has no licence file`);
  }
  return (await Deno.readTextFile(join(folder, found))).replaceAll("\r\n", "\n").trim();
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
    const { license } = JSON.parse(await Deno.readTextFile(join(folder, "package.json")));
    const heading = `${name} ${version} (${license})`;
    parts.push(`${heading}\n${"=".repeat(heading.length)}\n\n${await licenseFile(bundled)}\n`);
  }
  return parts.join("\n");
}
