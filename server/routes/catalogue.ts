/** The operator's catalogue, by id: never commands, addresses or keys. */

import { z } from "zod";
import type { CatalogueList } from "../../config/check/catalogue_tables.ts";
import { ENVIRONMENT_TYPES } from "../../config/sections/environment.ts";
import { JUDGE_TYPES } from "../../config/sections/judge.ts";
import type { ServerConfig } from "../../config/server/schema.ts";
import { nextCursor, page, pageQuery } from "../http/page.ts";
import { json, type Route, route } from "../routing/route.ts";

interface Entry {
  id: string;
  description: string;
  type: string;
}

interface Kind {
  /** The name of an entry's schema. */
  name: string;
  summary: string;
  types: readonly [string, ...string[]];
  entries: (config: ServerConfig) => readonly Entry[];
}

/** The route with the entries of a list. */
function routeOf(list: CatalogueList, { name, summary, types, entries }: Kind): Route {
  const entry = z.strictObject({ id: z.string(), description: z.string(), type: z.enum(types) });
  return route({
    method: "GET",
    path: `/v1/${list.replaceAll("_", "-")}`,
    operation: `list_${list}`,
    summary,
    query: z.object(pageQuery),
    answers: {
      200: {
        description: "In the order declared.",
        content: {
          "application/json": z.strictObject({
            [list]: z.array(entry.meta({ id: name })),
            next_cursor: nextCursor,
          }),
        },
      },
    },
    handler({ query, services: { config } }) {
      const { items, next_cursor } = page(entries(config), { ...query, keyOf: ({ id }) => id });
      const shown = items.map(({ id, description, type }) => ({ id, description, type }));
      return json(200, { [list]: shown, next_cursor });
    },
  });
}

/** The lists, in the order of the API's description. */
const KINDS: Readonly<Record<CatalogueList, Kind>> = {
  rewards: {
    name: "Reward",
    summary: "Rewards that the operator declares.",
    types: ["command"],
    entries: ({ rewards }) => rewards.map((reward) => ({ ...reward, type: "command" })),
  },
  judges: {
    name: "Judge",
    summary: "Judges that the operator declares.",
    types: JUDGE_TYPES,
    entries: ({ judges }) => judges,
  },
  mcp_servers: {
    name: "McpServer",
    summary: "MCP servers that the operator declares.",
    types: ["stdio", "http"],
    entries: ({ mcp_servers }) =>
      mcp_servers.map((server) => ({ ...server, type: server.url === undefined ? "stdio" : "http" })),
  },
  environments: {
    name: "Environment",
    summary: "Environments that the operator declares.",
    types: ENVIRONMENT_TYPES,
    entries: ({ environments }) =>
      environments.map((environment) => ({ ...environment, type: environment.type! })),
  },
};

export const CATALOGUE_ROUTES: readonly Route[] = Object.entries(KINDS).map(([list, kind]) =>
  routeOf(list as CatalogueList, kind)
);
