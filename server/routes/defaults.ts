/** The configuration's schema and defaults. */

import { z } from "zod";
import { describeKeys } from "../../config/describe.ts";
import { algorithmsText } from "../../config/algorithms.ts";
import { OBSERVE_TARGET_UPDATES } from "../../config/sections/defaults.ts";
import { TEXTS } from "../../config/text/text_kinds.ts";
import { DEFAULT_RECIPE_UPDATES } from "../../config/check/recipe.ts";
import { requestJsonSchema } from "../../config/check/request_keys.ts";
import { jsonValue } from "../http/json_value.ts";
import { json, type Route, route } from "../routing/route.ts";

/** The names of the algorithms with rollouts, as text. */
const ROLLOUT_ALGORITHMS = algorithmsText(({ has_rollouts }) => has_rollouts);

const OBSERVE_RULE =
  "Texts are kept of every n-th update, n = ceil(updates / observe_target_updates), and always of the first and the last.";

const defaultSchema = z.strictObject({
  key: z.string().meta({ description: "Dotted; `[]` follows the name of a list of tables." }),
  type: z.string(),
  default: jsonValue.meta({ description: "Null for a key that a rule derives, or that has to be given." }),
  rule: z.string().nullable().meta({ description: "How a key without a default is derived." }),
  required: z.boolean(),
  description: z.string(),
}).meta({ id: "ConfigDefault" });

const getDefaults = route({
  method: "GET",
  path: "/v1/defaults",
  operation: "get_defaults",
  summary: "Every published default with its rule.",
  answers: {
    200: {
      description: "The defaults of the run configuration, of recipes and of this server.",
      content: {
        "application/json": z.strictObject({
          config: z.array(defaultSchema),
          recipe: z.strictObject({
            updates: z.int().gte(0).meta({
              description: `Updates of ${ROLLOUT_ALGORITHMS} without a budget.`,
            }),
            checkpoint: z.literal(true).meta({ description: "A recipe always has checkpoints." }),
            observe: z.string().meta({ description: "When a recipe exports trajectories." }),
          }),
          observe_target_updates: z.strictObject({
            default: z.int().gte(0),
            value: z.int().gte(0).meta({ description: "Of this server." }),
            rule: z.string(),
          }),
        }).meta({ id: "Defaults", ...TEXTS.data }),
      },
    },
  },
  handler({ services: { config: { observe_target_updates: value } } }) {
    const config = describeKeys().map((key) => ({
      ...{ key: key.key, type: key.type, required: key.required, description: key.description },
      default: (key.default ?? null) as z.core.util.JSONType,
      rule: key.rule ?? null,
    }));
    return json(200, {
      config,
      recipe: {
        updates: DEFAULT_RECIPE_UPDATES,
        checkpoint: true,
        observe: "when its objective makes conversations",
      },
      observe_target_updates: { default: OBSERVE_TARGET_UPDATES, value, rule: OBSERVE_RULE },
    });
  },
});

const getConfigSchema = route({
  method: "GET",
  path: "/v1/config-schema",
  operation: "get_config_schema",
  summary: "The run configuration as JSON Schema.",
  answers: {
    200: {
      description: "What a request may hold, as JSON Schema 2020-12; `svc config schema` describes the file.",
      content: { "application/json": z.record(z.string(), z.unknown()).meta(TEXTS.data) },
    },
  },
  handler: () => json(200, requestJsonSchema()),
});

export const DEFAULTS_ROUTES: readonly Route[] = [getDefaults, getConfigSchema];
