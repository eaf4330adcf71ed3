import { doesNotMatch, equal, match, notEqual } from "node:assert/strict";
import { profileImage } from "./container_image.ts";
import { containerfile, IMAGE_PROFILES, IMAGE_RECIPES, recipeTag } from "./image_recipes.ts";

Deno.test("the committed Containerfiles are those that svc images build uses", async () => {
  for (const profile of IMAGE_PROFILES) {
    const path = new URL(`../../images/${profile}.containerfile`, import.meta.url);
    const text = await Deno.readTextFile(path);
    equal(text, containerfile(IMAGE_RECIPES[profile]), profile);
    // Docker's own builder knows no options of COPY and RUN: they need BuildKit, a program of its own.
    doesNotMatch(text, /^(COPY|RUN) --/m);
  }
});

Deno.test("an image is tagged by its recipe", () => {
  match(profileImage("python"), /^localhost\/svc-python:[0-9a-f]{12}$/);
  match(
    profileImage("typescript"),
    new RegExp(`^localhost/svc-typescript:[0-9a-f]{12}-deno-${Deno.version.deno}$`),
  );
  const { python } = IMAGE_RECIPES;
  equal(recipeTag({ ...python }), recipeTag(python));
  notEqual(recipeTag({ ...python, packages: [...python.packages, "git"] }), recipeTag(python));
});
