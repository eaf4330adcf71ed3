/** What the model of a run was given to work with, so that it can be tried as it was trained. */

import type { Generate, TrajectoryTool } from "../../api/types.ts";
import type { Api } from "./api.ts";

/** A tool as requests have it. */
export type RequestTool = NonNullable<Generate["tools"]>[number];

/** What the newest attempts of a run had before the task. */
export interface RunTools {
  /** Their names, in the order of the tools. */
  names: readonly string[];
  tools: RequestTool[];
  /** The system message of one of them; empty for none. */
  system: string;
}

const NONE: RunTools = { names: [], tools: [], system: "" };

function requestTool({ name, description, parameters }: TrajectoryTool): RequestTool {
  return { type: "function", function: { name, description, parameters } };
}

/** The tools of the first scenario of a run's newest update; none for a run without attempts. */
export async function toolsOfRun(api: Api, id: string, signal: AbortSignal): Promise<RunTools> {
  const { updates: [newest] } = await api.call("GET /v1/runs/{id}/trajectories", {
    params: { id },
    query: { limit: 1 },
    signal,
  });
  if (!newest || newest.groups === 0) return NONE;
  const { tools, members: [first] } = await api.call(
    "GET /v1/runs/{id}/trajectories/updates/{update}/groups/{group}",
    { params: { id, update: String(newest.update), group: "0" }, query: { limit: 1 }, signal },
  );
  if (!tools) return NONE;
  const system = first?.messages?.find(({ role }) => role === "system")?.content ?? "";
  return { names: tools.map(({ name }) => name), tools: tools.map(requestTool), system };
}
