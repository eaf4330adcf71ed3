/** The operator's catalogue, by id. */

import { notBuilt, type Route } from "../route.ts";

export const CATALOGUE_ROUTES: readonly Route[] = [
  notBuilt({
    method: "GET",
    path: "/v1/rewards",
    operation: "list_rewards",
    summary: "Rewards that the operator declares.",
  }),
  notBuilt({
    method: "GET",
    path: "/v1/judges",
    operation: "list_judges",
    summary: "Judges that the operator declares.",
  }),
  notBuilt({
    method: "GET",
    path: "/v1/mcp-servers",
    operation: "list_mcp_servers",
    summary: "MCP servers that the operator declares.",
  }),
  notBuilt({
    method: "GET",
    path: "/v1/environments",
    operation: "list_environments",
    summary: "Environments that the operator declares.",
  }),
];
