/** What the images of the profiles consist of. A change needs another `IMAGES_VERSION`. */

import type { ImageProfile } from "../agent/environment/container_image.ts";

/** The base image of a build with a registry. */
export const BASE_IMAGE = "docker.io/library/debian:bookworm-slim";

/** The Debian release of a build from packages. */
export const DEBIAN_RELEASE = "bookworm";

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
export const USER_LINE = "useradd --uid 1000 --home-dir /work --no-create-home sandbox && mkdir -p /work";

/** The Containerfile of a recipe; its folder has the program `deno` if the recipe does. */
export function containerfile({ packages, has_deno }: ImageRecipe): string {
  return [
    `FROM ${BASE_IMAGE}`,
    `RUN apt-get update && apt-get install -y --no-install-recommends ${packages.join(" ")} \\`,
    "  && rm -rf /var/lib/apt/lists/*",
    `RUN ${USER_LINE}`,
    ...has_deno ? ["COPY --chmod=0755 deno /usr/local/bin/deno"] : [],
    "USER 1000",
    "WORKDIR /work",
    "",
  ].join("\n");
}
