/** Any JSON value, for answers whose form this program does not know. */

import { z } from "zod";

type Json = z.core.util.JSONType;

export const jsonValue = z.unknown().meta({ id: "JsonValue", description: "Any JSON value." }) as z.ZodType<
  Json,
  Json
>;
