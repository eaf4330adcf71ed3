/** The images of containers: of a profile, or the operator's own. */

import type { EnvironmentConfig } from "../../config/schema.ts";
import { ServiceError } from "../../core/errors.ts";
import { askEngine, type ContainerEngine, engineReason, type EngineWait } from "./container_engine.ts";
import { IMAGE_PROFILES, IMAGE_RECIPES, type ImageProfile, recipeTag } from "./image_recipes.ts";

/** The name of a profile's image, as `svc images build` makes it. */
export function profileImage(profile: ImageProfile): string {
  return `localhost/svc-${profile}:${recipeTag(IMAGE_RECIPES[profile])}`;
}

/** The image of `[agent.environment]`. Its profile has one, or it names one: the configuration was checked. */
export function imageOf({ image, profile }: EnvironmentConfig): string {
  return image ?? profileImage(profile as ImageProfile);
}

/** Refuses an image that is not on this machine. @throws {ServiceError} `infrastructure_failed`. */
export async function requireImage(engine: ContainerEngine, image: string, wait: EngineWait): Promise<void> {
  const { program } = engine;
  const answer = await askEngine(program, ["image", "inspect", "--format", "{{.Id}}", image], wait);
  if (answer.code === 0) return;
  const is_own = IMAGE_PROFILES.some((profile) => profileImage(profile) === image);
  const fix = is_own ? "make it with svc images build" : `get it with ${program} pull ${image}`;
  throw new ServiceError(
    "infrastructure_failed",
    `Cannot use the image ${image}: ${program} does not have it (${engineReason(answer)}); ${fix}`,
  );
}
