/** The schema of an OpenAPI document, for the parts that this program uses. */

import { z } from "zod";
import { TEXTS } from "../../config/text/text_kinds.ts";
import { jsonValue } from "../http/json_value.ts";

export const openApiSchema = z.strictObject({
  openapi: z.string(),
  info: z.strictObject({
    title: z.string(),
    version: z.string(),
    description: z.string(),
    license: z.strictObject({ name: z.string(), identifier: z.string() }),
  }),
  servers: z.array(z.strictObject({ url: z.string() })),
  security: z.array(z.record(z.string(), z.array(z.string()))),
  paths: z.record(z.string(), z.record(z.string(), jsonValue)),
  components: z.record(z.string(), z.record(z.string(), jsonValue)),
}).meta({ id: "OpenApi", ...TEXTS.data });

export type OpenApiDocument = z.output<typeof openApiSchema>;
