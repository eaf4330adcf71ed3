/** The operator's catalogue, by id: never commands, addresses or keys. */

import { z } from "zod";
import { ENVIRONMENT_TYPES } from "../../config/sections/environment.ts";
import { nextCursor, page, pageQuery } from "../http/page.ts";
import { json, type Route, route } from "../routing/route.ts";

/** What a client sees of an entry. */
const entry = <const T extends readonly [string, ...string[]]>(types: T) =>
  z.strictObject({ id: z.string(), description: z.string(), type: z.enum(types) });

const keyOf = ({ id }: { id: string }) => id;

const listRewards = route({
  method: "GET",
  path: "/v1/rewards",
  operation: "list_rewards",
  summary: "Rewards that the operator declares.",
  query: z.object(pageQuery),
  answers: {
    200: {
      description: "In the order declared.",
      content: {
        "application/json": z.strictObject({
          rewards: z.array(entry(["command"]).meta({ id: "Reward" })),
          next_cursor: nextCursor,
        }),
      },
    },
  },
  handler({ query, services: { config } }) {
    const { items, next_cursor } = page(config.rewards, { ...query, keyOf });
    const rewards = items.map(({ id, description }) => ({ id, description, type: "command" as const }));
    return json(200, { rewards, next_cursor });
  },
});

const listJudges = route({
  method: "GET",
  path: "/v1/judges",
  operation: "list_judges",
  summary: "Judges that the operator declares.",
  query: z.object(pageQuery),
  answers: {
    200: {
      description: "In the order declared.",
      content: {
        "application/json": z.strictObject({
          judges: z.array(entry(["ruler", "local"]).meta({ id: "Judge" })),
          next_cursor: nextCursor,
        }),
      },
    },
  },
  handler({ query, services: { config } }) {
    const { items, next_cursor } = page(config.judges, { ...query, keyOf });
    const judges = items.map(({ id, description, type }) => ({ id, description, type }));
    return json(200, { judges, next_cursor });
  },
});

const listMcpServers = route({
  method: "GET",
  path: "/v1/mcp-servers",
  operation: "list_mcp_servers",
  summary: "MCP servers that the operator declares.",
  query: z.object(pageQuery),
  answers: {
    200: {
      description: "In the order declared.",
      content: {
        "application/json": z.strictObject({
          mcp_servers: z.array(entry(["stdio", "http"]).meta({ id: "McpServer" })),
          next_cursor: nextCursor,
        }),
      },
    },
  },
  handler({ query, services: { config } }) {
    const { items, next_cursor } = page(config.mcp_servers, { ...query, keyOf });
    const mcp_servers = items.map(({ id, description, url }) => ({
      ...{ id, description },
      type: url === undefined ? "stdio" as const : "http" as const,
    }));
    return json(200, { mcp_servers, next_cursor });
  },
});

const listEnvironments = route({
  method: "GET",
  path: "/v1/environments",
  operation: "list_environments",
  summary: "Environments that the operator declares.",
  query: z.object(pageQuery),
  answers: {
    200: {
      description: "In the order declared.",
      content: {
        "application/json": z.strictObject({
          environments: z.array(entry(ENVIRONMENT_TYPES).meta({ id: "Environment" })),
          next_cursor: nextCursor,
        }),
      },
    },
  },
  handler({ query, services: { config } }) {
    const { items, next_cursor } = page(config.environments, { ...query, keyOf });
    const environments = items.map(({ id, description, type }) => ({ id, description, type: type! }));
    return json(200, { environments, next_cursor });
  },
});

export const CATALOGUE_ROUTES: readonly Route[] = [
  listRewards,
  listJudges,
  listMcpServers,
  listEnvironments,
];
