/** The OpenAPI description. */

import { openApiSchema } from "../routing/openapi_schema.ts";
import { constantJson, type Route, route } from "../routing/route.ts";

const openApi = route({
  method: "GET",
  path: "/v1/openapi.json",
  operation: "get_openapi",
  summary: "This description, as OpenAPI 3.1.",
  in_view_mode: true,
  answers: {
    200: {
      description: "The document, equal to api/openapi.json of the program's source.",
      content: {
        "application/json": openApiSchema,
      },
    },
  },
  handler: ({ services }) => constantJson(200, services.openApi()),
});

export const OPENAPI_ROUTES: readonly Route[] = [openApi];
