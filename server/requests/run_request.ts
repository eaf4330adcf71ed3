/** The bodies of `POST /v1/plan` and `POST /v1/runs`: a recipe, a complete configuration, or a fork. */

import { z } from "zod";
import {
  CATALOGUE_LISTS,
  CATALOGUE_TABLES,
  type CatalogueList,
  type RecipeObjective,
} from "../../config/check/catalogue_tables.ts";
import { isJsonObject } from "../../core/json.ts";
import { name } from "../../config/sections/fields.ts";
import { DEGRADATIONS } from "../../config/check/recipe.ts";
import { algorithmKeys, ALGORITHMS } from "../../config/algorithms.ts";
import { budget } from "../../config/server/schema.ts";
import { jsonValue } from "../http/json_value.ts";
import { oneLine } from "../http/one_line.ts";
import type { DeclaredProblems } from "../http/problems.ts";

/** The longest name of a run. */
const MAX_NAME_CHARS = 200;

/** The most characters of a path or an id. */
const MAX_REFERENCE_CHARS = 8192;

const reference = () => z.string().min(1).max(MAX_REFERENCE_CHARS);

/** The name of a run. */
export const runName = oneLine(MAX_NAME_CHARS).meta({ description: "The run's name." });

/**
 * The id of a catalogue entry. Other values, such as a command, may only be declared by the operator. They are refused
 * later with the code that says so.
 */
const catalogueId = (list: CatalogueList) =>
  z.union([name(), z.looseObject({}), z.array(jsonValue)]).meta({
    description: `The id of ${
      CATALOGUE_TABLES[list].noun
    } in the server's catalogue; nothing else is accepted.`,
  });

/** An object whose keys are checked later. `z.record` would silently drop `__proto__`. */
const keys = () =>
  z.unknown().refine(isJsonObject, {
    error: "must be an object",
  }).transform((value) => value as Record<string, unknown>).meta({ type: "object" });

/** The most `params`: more than there are keys, and few enough to be compared with each other. */
export const MAX_PARAMS = 512;

const params = keys().refine((value) => Object.keys(value).length <= MAX_PARAMS, {
  error: `must have at most ${MAX_PARAMS} keys`,
});

/** A field for each list of the catalogue. */
const objectiveFields = Object.fromEntries(CATALOGUE_LISTS.map((list) => {
  const { field, is_list } = CATALOGUE_TABLES[list], id = catalogueId(list);
  return [field, (is_list ? z.array(id) : id).optional()];
}));

const objective = (z.strictObject(objectiveFields) as unknown as z.ZodType<RecipeObjective<unknown>>)
  .meta({ id: "Objective", description: "The sources of rewards for attempts, and the tools of attempts." });

/** The rows in the file that a field of a recipe names, for each algorithm, in words. */
function rowsIn(field: "data" | "scenarios"): string {
  const keys = ALGORITHMS.map((name) => ({ name, ...algorithmKeys(name).data }));
  const rows = keys.filter(({ recipe_field }) => recipe_field === field);
  return rows.map(({ rows, name }) => `${rows} of ${name}`).join(" or ");
}

const recipeFields = {
  recipe: z.enum(ALGORITHMS).meta({ description: "The algorithm." }),
  model: reference().meta({ description: "Path of a GGUF file in path_roots." }),
  data: reference().optional().meta({
    description: `The data, ${rowsIn("data")}: a path or a dataset's id.`,
  }),
  scenarios: reference().optional().meta({
    description: `The data, ${rowsIn("scenarios")}: a path or a dataset's id.`,
  }),
  objective: objective.optional(),
  budget: z.strictObject({
    updates: z.number().optional(),
    epochs: z.number().optional(),
    minutes: z.number().optional(),
  }).optional().meta({ description: "How long to train; the first limit that is reached ends the run." }),
  params: params.optional().meta({
    description: "Further keys of the configuration by dotted name, such as `training.lr`.",
  }),
  allow: z.array(z.enum(DEGRADATIONS)).optional().meta({
    description: "Degradations of the result that are allowed, to make the run possible.",
  }),
  limits: z.strictObject({
    vram: budget("device's memory").optional(),
    ram: budget("machine's memory").optional(),
  }).optional().meta({ description: "How much memory the run may take, within the server's limits." }),
};

const forkFrom = z.strictObject({
  run: reference().meta({ description: "The parent's id." }),
  checkpoint: reference().optional().meta({ description: "One of its checkpoints; left out, the newest." }),
}).meta({ id: "ForkFrom" });

export const recipeSchema = z.strictObject({ ...recipeFields, name: runName.optional() }).meta({
  id: "Recipe",
  description: "The short form of a configuration.",
});

export const completeSchema = z.strictObject({
  config: keys().meta({
    description: "A complete configuration, as GET /v1/config-schema describes it.",
  }),
  name: runName.optional(),
}).meta({ id: "WholeConfiguration" });

export const forkSchema = z.strictObject({
  fork_from: forkFrom,
  ...z.strictObject(recipeFields).partial().shape,
  config: completeSchema.shape.config.optional(),
  name: runName.optional(),
}).meta({
  id: "Fork",
  description: "A run that continues from a checkpoint of another one, with some changes.",
});

/** Chooses the form of a body by the fields that it has. */
export function formOf(value: unknown): z.ZodType {
  const has = (field: string) => typeof value === "object" && value !== null && Object.hasOwn(value, field);
  return has("fork_from") ? forkSchema : has("config") ? completeSchema : recipeSchema;
}

/** A body in any form, of which fields may be missing. */
export type PartialBody = Partial<RecipeBody & CompleteBody & ForkBody>;

/** The fields that precede the sections of a TOML body. */
export const tomlHeadSchema = z.object({ name: runName.optional(), fork_from: forkFrom.optional() });

/** The problems of both routes besides those of their form. */
export const RUN_PROBLEMS = {
  "invalid-request": ["path_not_found", "needs_opt_in"],
  "not-found": ["not_found"],
  "forbidden-path": ["forbidden_path"],
  "server-declared": ["server_declared"],
  "unknown-catalog-id": ["unknown_catalog_id"],
  "conflict": ["override_conflict", "conflict"],
  "insufficient-memory": ["out_of_range"],
} as const satisfies DeclaredProblems;

type RecipeBody = z.output<typeof recipeSchema>;
type CompleteBody = z.output<typeof completeSchema>;
type ForkBody = z.output<typeof forkSchema>;
