/**
 * Writes the program as one file with its launchers: `svc.js` (all of the program, its own workers and processes),
 * `svc` and `svc-server` (shell scripts, and `.cmd` files for Windows), `LICENSE` and `THIRD_PARTY_LICENSES.txt`. The
 * same commit always gives the same bytes.
 */

import { join, relative } from "node:path";
import { gzipSync } from "node:zlib";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { BUNDLE_FLAGS, PERMISSION_FLAGS, WORKER_FLAGS } from "../core/deno_flags.ts";
import { type Build, OPTIONAL_PARTS, type OptionalPart } from "../core/version.ts";
import { filesBelow, INTERFACE_FOLDER } from "./build_ui.ts";
import { type BundledPackage, LICENSES_FILE, licensesText } from "./licenses.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

/** Deno's flags for the bundled program. */
const PROGRAM_FLAGS: readonly string[] = [...BUNDLE_FLAGS, ...WORKER_FLAGS, ...PERMISSION_FLAGS];

/** The program in one file. */
export interface Bundle {
  text: string;
  /** What it is made of: modules and shaders as paths from the root, those of packages as `npm/<name>/<version>/…`. */
  sources: string[];
  packages: BundledPackage[];
}

/** Runs Deno or git in the root and returns its output. @throws When it fails. */
async function output(program: string, args: readonly string[]): Promise<string> {
  const { success, stdout, stderr } = await new Deno.Command(program, { args: [...args], cwd: ROOT })
    .output();
  const decoder = new TextDecoder();
  if (!success) throw new Error(`Cannot run ${program} ${args[0]}: ${decoder.decode(stderr)}`);
  return decoder.decode(stdout);
}

/** The commit, marked when files differ from it; null when this is no git checkout. */
async function currentCommit(): Promise<string | null> {
  const args = ["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"];
  return await output("git", args).then((text) => text.trim(), () => null);
}

/** The folder of Deno's cache that has a folder of packages for each registry. */
async function registriesFolder(): Promise<string> {
  const { npmCache } = JSON.parse(await output(Deno.execPath(), ["info", "--json"]));
  return npmCache;
}

/**
 * A package's name, version and folder, of a path `npm/<name>/<version>/…`, or of a package that another contains, of a
 * path in its map. Null for the program's own files, and for other sources that a package's map places beside its folder.
 */
function packageOf(source: string, folder: string): BundledPackage | null {
  if (source.includes("/node_modules/")) {
    const [, version, contained] = /@(\d[^/_]*)[^/]*\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(source) ??
      [];
    if (contained === undefined) throw new Error(`Cannot list the licence of ${source}: it names no package`);
    return { name: contained, version: version!, folder: null };
  }
  const [, name, version] = /^npm\/((?:@[^/]+\/)?[^/]+)\/(\d[^/]*)\//.exec(source) ?? [];
  return name === undefined ? null : { name, version: version!, folder: join(folder, name, version!) };
}

/** Packages that only an optional part uses. A build without the part leaves them out. */
const PACKAGES_OF: Readonly<Record<OptionalPart, readonly string[]>> = {
  mcp: ["@modelcontextprotocol/client"],
  containers: [],
  ui: [],
};

/** Parts by the text of `--without`: names with commas. @throws When a name is none of a part. */
function partsOf(text: string): OptionalPart[] {
  const names = text.split(",").map((name) => name.trim()).filter((name) => name !== "");
  return names.map((name) => {
    const part = OPTIONAL_PARTS.find((known) => known === name);
    if (part) return part;
    throw new Error(`Cannot leave out ${JSON.stringify(name)}: the parts are ${OPTIONAL_PARTS.join(", ")}`);
  });
}

/** What a build has besides the program, and what it has not. */
export interface BuildParts {
  /** Configurations that need one of these are refused when they are loaded. */
  without?: readonly OptionalPart[];
  /** The folder of the built web interface; absent: the build has none. */
  interface_folder?: string;
}

/** Parts by the options `--with` and `--without`. @throws When a name is none of a part. */
export function buildParts(options: { with: string; without: string }): BuildParts {
  const asked = options.with.trim();
  if (asked !== "" && asked !== "ui") {
    throw new Error(`Cannot add ${JSON.stringify(asked)}: the only part that is off by default is ui`);
  }
  const without = partsOf(options.without);
  if (asked === "ui" && without.includes("ui")) throw new Error("Cannot both add and leave out ui");
  return { without, ...(asked === "ui" && { interface_folder: INTERFACE_FOLDER }) };
}

/** The files of the built interface, compressed, in base64. @throws When it has not been built. */
async function interfaceFiles(folder: string): Promise<Record<string, string>> {
  const paths = await filesBelow(folder);
  if (!paths.includes(join(folder, "index.html"))) {
    throw new Error(`Cannot add the web interface: ${folder} does not have it; build it: deno task build-ui`);
  }
  return Object.fromEntries(
    await Promise.all(paths.map(async (path) => {
      // Node's gzip writes no time, so that the same files give the same bytes.
      const gzipped = gzipSync(await Deno.readFile(path), { level: 9 });
      return [relative(folder, path), new Uint8Array(gzipped).toBase64()] as const;
    })),
  );
}

/** Bundles `cli.ts`. */
async function bundleProgram({ without = [], interface_folder }: BuildParts): Promise<Bundle> {
  const folder = await Deno.makeTempDir(), registries = await registriesFolder();
  try {
    const file = join(folder, "svc.js");
    const external = without.flatMap((part) => PACKAGES_OF[part]).map((name) => `--external=${name}`);
    const flags = ["--quiet", "--sourcemap=external", ...external, "--output", file];
    await output(Deno.execPath(), ["bundle", ...flags, "cli.ts"]);
    const map: { sources: string[] } = JSON.parse(await Deno.readTextFile(`${file}.map`));
    const paths = map.sources.map((source) => join(folder, source));
    // All packages come from one registry; what it is called is the machine's affair.
    const [registry] = paths.filter((path) => path.startsWith(registries))
      .map((path) => relative(registries, path).split("/")[0]!);
    const packages_folder = join(registries, registry ?? "");
    // The bundler names modules by their paths from the root, which differ between machines for packages.
    const named = (await Deno.readTextFile(file)).replaceAll(relative(ROOT, packages_folder), "npm");
    const build: Build = {
      commit: await currentCommit(),
      ...(without.length > 0 && { without }),
      ...(interface_folder !== undefined && { interface_files: await interfaceFiles(interface_folder) }),
    };
    const text = named.replace(/^#!.*/, `globalThis.SVC_BUILD = ${JSON.stringify(build)};`);
    const sources = paths.map((path) => {
      const inside = relative(packages_folder, path);
      return inside.startsWith("..") ? relative(ROOT, path) : join("npm", inside);
    }).sort();
    const found = sources.flatMap((source) => packageOf(source, packages_folder) ?? []);
    const packages = new Map(found.map((bundled) => [`${bundled.name}@${bundled.version}`, bundled]));
    return { text, sources, packages: [...packages.values()] };
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** A shell script that starts the program, also through links. */
export function shellLauncher(program: string, args: string, deno_version: string): string {
  return `#!/bin/sh
# Starts svc.js, which is in this file's folder, with the permissions that it needs.
self=$0
while [ -L "$self" ]; do
  link=$(readlink "$self")
  case $link in /*) self=$link ;; *) self=$(dirname -- "$self")/$link ;; esac
done
folder=$(CDPATH='' cd -- "$(dirname -- "$self")" && pwd -P)
if ! command -v deno >/dev/null 2>&1; then
  echo "${program}: Cannot start: there is no deno on the path; install it: npm install -g deno@${deno_version}" >&2
  exit 1
fi
# Results and runtime interfaces belong to one version.
case $(deno --version) in
  "deno ${deno_version} "*) ;;
  *)
    echo "${program}: Cannot start: the deno on the path is not ${deno_version}; install it: npm install -g deno@${deno_version}" >&2
    exit 1
    ;;
esac
export DENO_NO_UPDATE_CHECK=1
exec deno run ${PROGRAM_FLAGS.join(" ")} "$folder/svc.js" ${args}"$@"
`;
}

/** The same for Windows. */
function windowsLauncher(program: string, args: string, deno_version: string): string {
  const refusal = `${program}: Cannot start: the deno on the path is not ${deno_version}`;
  const lines = [
    "@echo off",
    "rem Starts svc.js, which is in this file's folder, with the permissions that it needs.",
    "setlocal",
    "set DENO_NO_UPDATE_CHECK=1",
    `deno --version | findstr /b /c:"deno ${deno_version} " >nul`,
    `if errorlevel 1 (echo ${refusal}; install it: npm install -g deno@${deno_version} 1>&2 & exit /b 1)`,
    `deno run ${PROGRAM_FLAGS.join(" ")} "%~dp0svc.js" ${args}%*`,
    "exit /b %errorlevel%",
  ];
  return lines.map((line) => `${line}\r\n`).join("");
}

/** Writes the program and its launchers to a folder, which is made if needed. */
export async function writeProgram(folder: string, parts: BuildParts = {}): Promise<Bundle> {
  const bundle = await bundleProgram(parts);
  const deno_version = (await Deno.readTextFile(join(ROOT, ".deno-version"))).trim();
  const { interface_folder } = parts, licenses = [licensesText("svc.js", bundle.packages)];
  if (interface_folder !== undefined) {
    licenses.push(Deno.readTextFile(join(interface_folder, LICENSES_FILE)));
  }
  const files: [name: string, text: string, mode: number][] = [
    ["svc.js", bundle.text, 0o644],
    ["svc", shellLauncher("svc", "", deno_version), 0o755],
    ["svc-server", shellLauncher("svc-server", "server ", deno_version), 0o755],
    ["svc.cmd", windowsLauncher("svc", "", deno_version), 0o644],
    ["svc-server.cmd", windowsLauncher("svc-server", "server ", deno_version), 0o644],
    ["LICENSE", await Deno.readTextFile(join(ROOT, "LICENSE")), 0o644],
    [LICENSES_FILE, (await Promise.all(licenses)).join("\n"), 0o644],
  ];
  await Deno.mkdir(folder, { recursive: true });
  for (const [name, text, mode] of files) {
    const path = join(folder, name);
    await Deno.writeTextFile(path, text);
    if (Deno.build.os !== "windows") await Deno.chmod(path, mode);
  }
  return bundle;
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      out: { type: "string", default: join(ROOT, "dist") },
      with: { type: "string", default: "" },
      without: { type: "string", default: "" },
    },
  });
  const { text, packages } = await writeProgram(values.out, buildParts(values));
  const names = packages.map(({ name, version }) => `${name} ${version}`).join(", ");
  console.log(`wrote ${values.out}: svc.js has ${text.length} characters and contains ${names}`);
}
