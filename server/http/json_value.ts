/** Any JSON value, where this program does not know the form. */

import { z } from "zod";

type Json = z.core.util.JSONType;

export const jsonValue = z.unknown().meta({ id: "JsonValue", description: "Any JSON value." }) as z.ZodType<
  Json,
  Json
>;
