/** The licences of packages that are part of the bundled program, or of its web interface. */

import { join } from "node:path";
import { fileURLToPath } from "node:url";

const OWN_LICENSE = fileURLToPath(new URL("../LICENSE", import.meta.url));
const LOCK = fileURLToPath(new URL("../deno.lock", import.meta.url));

/** The file that lists the licences, in the folders of the program and of the built interface. */
export const LICENSES_FILE = "THIRD_PARTY_LICENSES.txt";

export interface BundledPackage {
  name: string;
  version: string;
  /** The package's files; null for one whose code is in the files of another. */
  folder: string | null;
}

/** A licence and its holders, of packages that others contain, whose own files are not there to be read. */
const CONTAINED: Readonly<Record<string, { license: string; holder: string }>> = {
  "ajv": { license: "MIT", holder: "2015-2021 Evgeny Poberezkin" },
  "ajv-formats": { license: "MIT", holder: "2020 Evgeny Poberezkin" },
  "content-type": { license: "MIT", holder: "2015 Douglas Christopher Wilson" },
  "fast-deep-equal": { license: "MIT", holder: "2017 Evgeny Poberezkin" },
  "fast-uri": {
    license: "BSD-3-Clause",
    holder: "2011-2021, Gary Court until https://github.com/garycourt/uri-js/commit/" +
      "a1acf730b4bba3f1097c9f52e7d9d3aba8cdcaae\n" +
      "Copyright (c) 2021-present The Fastify team <https://github.com/fastify/fastify#team>",
  },
  "json-schema-traverse": { license: "MIT", holder: "2017 Evgeny Poberezkin" },
};

/** What a package says of itself. */
interface Manifest {
  license: string;
  author?: string | { name: string };
}

/** The licence of a package's name and text. @throws When one of them is not known. */
async function licenseOf({ name, folder }: BundledPackage): Promise<{ license: string; text: string }> {
  if (folder !== null) {
    const manifest: Manifest = JSON.parse(await Deno.readTextFile(join(folder, "package.json")));
    return { license: manifest.license, text: await licenseFile({ name, folder }, manifest) };
  }
  const contained = CONTAINED[name];
  if (!contained) {
    throw new Error(`Cannot list the licence of ${name}: another package contains it; add it here`);
  }
  const { license, holder } = contained;
  return { license, text: license === "MIT" ? await mitText(holder) : bsdText(holder) };
}

/** The text of a package's licence file, or of the licence that it names. @throws When neither is known. */
async function licenseFile(
  { name, folder }: { name: string; folder: string },
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

/** The BSD licence with three clauses. */
function bsdText(holder: string): string {
  return `Copyright (c) ${holder}
All rights reserved.

Redistribution and use in source and binary forms, with or without modification, are permitted provided that the
following conditions are met:

1. Redistributions of source code must retain the above copyright notice, this list of conditions and the following
   disclaimer.
2. Redistributions in binary form must reproduce the above copyright notice, this list of conditions and the following
   disclaimer in the documentation and/or other materials provided with the distribution.
3. The names of any contributors may not be used to endorse or promote products derived from this software without
   specific prior written permission.

THIS SOFTWARE IS PROVIDED BY THE COPYRIGHT HOLDERS AND CONTRIBUTORS "AS IS" AND ANY EXPRESS OR IMPLIED WARRANTIES,
INCLUDING, BUT NOT LIMITED TO, THE IMPLIED WARRANTIES OF MERCHANTABILITY AND FITNESS FOR A PARTICULAR PURPOSE ARE
DISCLAIMED. IN NO EVENT SHALL THE COPYRIGHT HOLDERS AND CONTRIBUTORS BE LIABLE FOR ANY DIRECT, INDIRECT, INCIDENTAL,
SPECIAL, EXEMPLARY, OR CONSEQUENTIAL DAMAGES (INCLUDING, BUT NOT LIMITED TO, PROCUREMENT OF SUBSTITUTE GOODS OR
SERVICES; LOSS OF USE, DATA, OR PROFITS; OR BUSINESS INTERRUPTION) HOWEVER CAUSED AND ON ANY THEORY OF LIABILITY,
WHETHER IN CONTRACT, STRICT LIABILITY, OR TORT (INCLUDING NEGLIGENCE OR OTHERWISE) ARISING IN ANY WAY OUT OF THE USE OF
THIS SOFTWARE, EVEN IF ADVISED OF THE POSSIBILITY OF SUCH DAMAGE.`;
}

/**
 * The packages with their licences, by name.
 *
 * @param what What contains them, as the first words of the text.
 * @throws When a package is not in the lock file, or has no licence.
 */
export async function licensesText(what: string, packages: readonly BundledPackage[]): Promise<string> {
  const lock: { npm: Record<string, unknown> } = JSON.parse(await Deno.readTextFile(LOCK));
  const locked = new Set(Object.keys(lock.npm).map((key) => key.replace(/_.*/, "")));
  const parts = [`${what} contains these packages.\n`];
  for (const bundled of packages.toSorted((a, b) => a.name < b.name ? -1 : 1)) {
    const { name, version, folder } = bundled;
    if (folder !== null && !locked.has(`${name}@${version}`)) {
      throw new Error(`Cannot list the licence of ${name} ${version}: deno.lock has another version`);
    }
    const { license, text } = await licenseOf(bundled);
    const heading = `${name} ${version} (${license})`;
    parts.push(`${heading}\n${"=".repeat(heading.length)}\n\n${text}\n`);
  }
  return parts.join("\n");
}
