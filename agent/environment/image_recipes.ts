/** What the images of the profiles consist of. */

import { createHash } from "node:crypto";

/** The profiles with an image of this project. */
export const IMAGE_PROFILES = ["python", "typescript"] as const;

/** One of {@link IMAGE_PROFILES}. */
export type ImageProfile = typeof IMAGE_PROFILES[number];

/** The base image of a build with a registry. */
export const BASE_IMAGE = "docker.io/library/debian:bookworm-slim";

/** The Debian release of a build from packages. */
const DEBIAN_RELEASE = "bookworm";

const COMMON = ["bash", "coreutils", "diffutils", "findutils", "grep", "patch", "sed", "tar", "util-linux"];

/** What an image holds besides Debian's essential packages. */
export interface ImageRecipe {
  packages: readonly string[];
  has_deno: boolean;
}

/** The recipes of all profiles with an image. */
export const IMAGE_RECIPES: Readonly<Record<ImageProfile, ImageRecipe>> = {
  python: { packages: [...COMMON, "python3", "python3-pytest"], has_deno: false },
  typescript: { packages: COMMON, has_deno: true },
};

/** The line that makes the sandbox's user and folder. */
const USER_LINE = "useradd --uid 1000 --home-dir /work --no-create-home sandbox && mkdir -p /work";

/** The Containerfile of a recipe; its folder has the program `deno` if the recipe does. */
export function containerfile({ packages, has_deno }: ImageRecipe): string {
  return [
    `FROM ${BASE_IMAGE}`,
    `RUN apt-get update && apt-get install -y --no-install-recommends ${packages.join(" ")} \\`,
    "  && rm -rf /var/lib/apt/lists/*",
    `RUN ${USER_LINE}`,
    ...has_deno ? ["COPY deno /usr/local/bin/deno"] : [],
    "USER 1000",
    "WORKDIR /work",
    "",
  ].join("\n");
}

/** The arguments of `mmdebstrap` for a recipe without a registry; `tar` gets the files, and `deno` is the program. */
export function debianArguments(
  { packages, has_deno }: ImageRecipe,
  { tar, deno }: { tar: string; deno: string },
): string[] {
  const hooks = [`chroot "$1" sh -c '${USER_LINE}'`];
  if (has_deno) hooks.push(`copy-in ${deno} /usr/local/bin`);
  return [
    ...["--variant=essential", `--include=${packages.join(",")},passwd`],
    ...["doc", "man"].map((dir) => `--dpkgopt=path-exclude=/usr/share/${dir}/*`),
    ...hooks.map((hook) => `--customize-hook=${hook}`),
    ...[DEBIAN_RELEASE, tar],
  ];
}

/** The changes of an image that is made from Debian packages. */
export const IMPORT_CHANGES = ["USER 1000", "WORKDIR /work"];

/** The tag of a recipe's image: another recipe has another one. */
export function recipeTag(recipe: ImageRecipe): string {
  const made = [containerfile(recipe), debianArguments(recipe, { tar: "", deno: "" }), IMPORT_CHANGES];
  const hash = createHash("sha256").update(JSON.stringify(made)).digest("hex").slice(0, 12);
  // The image of profile typescript has the Deno that this program was tested with.
  return recipe.has_deno ? `${hash}-deno-${Deno.version.deno}` : hash;
}
