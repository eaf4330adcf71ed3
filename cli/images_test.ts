import { equal } from "node:assert/strict";
import { IMAGE_PROFILES } from "../agent/environment/container_image.ts";
import { containerfile, IMAGE_RECIPES } from "./image_recipes.ts";

Deno.test("the committed Containerfiles are those that svc images build uses", async () => {
  for (const profile of IMAGE_PROFILES) {
    const path = new URL(`../images/${profile}.containerfile`, import.meta.url);
    equal(await Deno.readTextFile(path), containerfile(IMAGE_RECIPES[profile]), profile);
  }
});
