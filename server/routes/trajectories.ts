/** Trajectories of runs. */

import { notBuilt, type Route } from "../route.ts";

export const TRAJECTORY_ROUTES: readonly Route[] = [
  notBuilt({
    method: "GET",
    path: "/v1/runs/{id}/trajectories",
    operation: "list_trajectory_updates",
    summary: "Updates with their counts, rewards and whether texts are kept.",
  }),
  notBuilt({
    method: "GET",
    path: "/v1/runs/{id}/trajectories/search",
    operation: "search_trajectories",
    summary: "Members by scenario, ending, failure, reward or text.",
  }),
  notBuilt({
    method: "GET",
    path: "/v1/runs/{id}/trajectories/updates/{update}",
    operation: "get_trajectory_update",
    summary: "The groups of an update, without texts.",
  }),
  notBuilt({
    method: "GET",
    path: "/v1/runs/{id}/trajectories/updates/{update}/groups/{group}",
    operation: "get_trajectory_group",
    summary: "A group with every text.",
  }),
  notBuilt({
    method: "GET",
    path: "/v1/runs/{id}/trajectories/updates/{update}/groups/{group}/members/{member}/tokens",
    operation: "list_trajectory_tokens",
    summary: "The tokens of a member as they were trained.",
  }),
  notBuilt({
    method: "GET",
    path: "/v1/runs/{id}/trajectories/updates/{update}/groups/{group}/diff",
    operation: "diff_trajectories",
    summary: "Where two members of a group part.",
  }),
];
