/** The library of Dawn, Google's WebGPU, as the npm package `webgpu` has it. Operators install it; nothing here loads it. */

/** The version of the package; another one may have another dialect of WGSL. */
export const DAWN_VERSION = "0.6.2";

/** Names the file of the library, for another place than {@link dawnLibrary}'s. */
export const DAWN_LIBRARY_ENV = "SVC_DAWN";

/** The variables that {@link dawnLibrary} reads. */
export const DAWN_VARIABLES: readonly string[] = [DAWN_LIBRARY_ENV, "XDG_DATA_HOME", "HOME", "LOCALAPPDATA"];

/** A folder of the package with the library for a system. */
interface DawnBuild {
  folder: string;
  /** SHA-256 of `dawn.node` in hexadecimal digits. */
  sha256: string;
}

const MAC: DawnBuild = {
  folder: "darwin-universal",
  sha256: "f5b278f3dc65276bf1f8a667f91650d32585431d5b2d148ca729f67924c574a3",
};

const BUILDS: Readonly<Record<string, DawnBuild>> = {
  "linux x86_64": {
    folder: "linux-x64",
    sha256: "ab18a659f8325e874ea45c80347b64336d7f748601102753d2bc669fdecfd710",
  },
  "linux aarch64": {
    folder: "linux-arm64",
    sha256: "474a272ac9be570b04fa3791576d32e56f574818e60190c6788a83be90233980",
  },
  "darwin x86_64": MAC,
  "darwin aarch64": MAC,
  "windows x86_64": {
    folder: "win32-x64",
    sha256: "75fff5db8a7541ad7a2d22c468e6f8bc3614b87c3b649c8ce712f7f5148ef338",
  },
  "windows aarch64": {
    folder: "win32-arm64",
    sha256: "d0ef6fe1551cd08fb0fee2a8281d38008434697e5d9a6f3bfdcbb9ab00755672",
  },
};

/** The package's build for a system; null for a system without one. */
export function dawnBuild(
  { os, arch }: Pick<typeof Deno.build, "os" | "arch"> = Deno.build,
): DawnBuild | null {
  return BUILDS[`${os} ${arch}`] ?? null;
}

/** Reads a variable of the environment. */
type Variable = (name: string) => string | undefined;

/** Where the package is installed: `svc/dawn` in the user's folder of data. Null if the environment names none. */
function dawnFolder(variable: Variable): string | null {
  const home = variable("HOME");
  const data = Deno.build.os === "windows"
    ? variable("LOCALAPPDATA")
    : variable("XDG_DATA_HOME") || (home && `${home}/.local/share`);
  return data ? `${data}/svc/dawn` : null;
}

/** The file of the library, whether it exists or not; null where there can be none. `SVC_DAWN` names another one. */
export function dawnLibrary(
  variable: Variable = Deno.env.get,
  build: DawnBuild | null = dawnBuild(),
): string | null {
  const named = variable(DAWN_LIBRARY_ENV), folder = dawnFolder(variable);
  if (named) return named;
  return folder === null || build === null
    ? null
    : `${folder}/node_modules/webgpu/dist/${build.folder}/dawn.node`;
}

/** The one command that installs the library where {@link dawnLibrary} looks for it; null where there can be none. */
export function dawnInstallCommand(
  variable: Variable = Deno.env.get,
  build: DawnBuild | null = dawnBuild(),
): string | null {
  const folder = dawnFolder(variable);
  return folder === null || build === null
    ? null
    : `npm install --prefix "${folder}" --ignore-scripts webgpu@${DAWN_VERSION}`;
}
