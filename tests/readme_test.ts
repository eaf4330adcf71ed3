import { deepEqual } from "node:assert/strict";
import { ARCHITECTURE_NAMES } from "../runs/models/architectures.ts";
import { DECODED_TYPES } from "../trainer/formats/ggml_types.ts";

Deno.test("the README lists the architectures and the types of weights that this build has", () => {
  const text = Deno.readTextFileSync(new URL("../README.md", import.meta.url)).replace(/\s+/g, " ");
  /** The names between two texts, sorted. */
  const listed = (before: string, after: string) =>
    text.split(before)[1]!.split(after)[0]!.match(/\w+/g)!.filter((word) => word !== "and" && word !== "or")
      .sort();
  deepEqual(listed("Take a ", " model as a GGUF file"), [...ARCHITECTURE_NAMES].sort());
  deepEqual(listed("may have the types ", " in any mixture"), [...DECODED_TYPES].sort());
});
