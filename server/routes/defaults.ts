/** The configuration's schema and defaults. */

import { notBuilt, type Route } from "../route.ts";

export const DEFAULTS_ROUTES: readonly Route[] = [
  notBuilt({
    method: "GET",
    path: "/v1/defaults",
    operation: "get_defaults",
    summary: "Every published default with its rule.",
  }),
  notBuilt({
    method: "GET",
    path: "/v1/config-schema",
    operation: "get_config_schema",
    summary: "The run configuration as JSON Schema.",
  }),
];
