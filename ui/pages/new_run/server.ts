/** What the page needs of the server before anything can be written. */

import { useState } from "preact/hooks";
import type { Run } from "../../../api/types.ts";
import { allPages, type Api } from "../../client/api.ts";
import { type Loaded, useLoad } from "../../client/use_call.ts";
import type { Offers } from "./offers.ts";

export interface Server {
  /** The JSON Schema of a configuration. */
  schema: object;
  offers: Offers;
  /** The run that the new one is to be like. */
  from: Run | null;
}

async function load(api: Api, from: string | null, signal: AbortSignal): Promise<Server> {
  const [schema, run, models, datasets, environments, rewards, judges, servers] = await Promise.all([
    api.call("GET /v1/config-schema", { signal }),
    from === null ? null : api.call("GET /v1/runs/{id}", { params: { id: from }, signal }),
    allPages((query) => api.call("GET /v1/model-files", { query, signal })),
    allPages((query) => api.call("GET /v1/datasets", { query, signal })),
    allPages((query) => api.call("GET /v1/environments", { query, signal })),
    allPages((query) => api.call("GET /v1/rewards", { query, signal })),
    allPages((query) => api.call("GET /v1/judges", { query, signal })),
    allPages((query) => api.call("GET /v1/mcp-servers", { query, signal })),
  ]);
  const offers: Offers = {
    models: models.flatMap(({ models }) => models),
    datasets: datasets.flatMap(({ datasets }) => datasets),
    environments: environments.flatMap(({ environments }) => environments),
    rewards: rewards.flatMap(({ rewards }) => rewards),
    judges: judges.flatMap(({ judges }) => judges),
    mcp_servers: servers.flatMap(({ mcp_servers }) => mcp_servers),
  };
  return { schema, offers, from: run };
}

/** Loads it once. @param from The id of the run that the new one is to be like. */
export function useServer(from: string | null): Loaded<Server> {
  const [id] = useState(from);
  return useLoad((api, signal) => load(api, id, signal), "");
}
