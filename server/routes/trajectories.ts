/** Trajectories of runs. */

import { z } from "zod";
import { updateSummary } from "../../runs/views/member_views.ts";
import {
  groupSchema,
  groupSummarySchema,
  memberSchema,
  tokenSchema,
  updateSummarySchema,
} from "../../runs/views/shapes.ts";
import {
  findGroup,
  findMember,
  findTrajectories,
  findUpdate,
  noTokens,
} from "../resources/find_trajectories.ts";
import { nextCursor, NUMBER_KEYS, PagedList } from "../http/page.ts";
import { notFound } from "../http/problems.ts";
import { json, type Route, route } from "../routing/route.ts";
import { skippedLines, wholeNumber } from "../resources/trajectory_fields.ts";
import { TRAJECTORY_SEARCH_ROUTES } from "./trajectory_search.ts";

const JSON_TYPE = "application/json";

const UPDATE_LIST = new PagedList("updates", /^\d{9}$/);

/** Their keys are the numbers of groups, members and tokens. */
const GROUP_LIST = new PagedList("groups", NUMBER_KEYS);
const MEMBER_LIST = new PagedList("members", NUMBER_KEYS);
const TOKEN_LIST = new PagedList("member_tokens", NUMBER_KEYS);

/** The cursor of a list whose keys are numbers. */
const cursorOf = (list: PagedList, next: number | null) => next === null ? null : list.cursorOf(next);

const listUpdates = route({
  method: "GET",
  path: "/v1/runs/{id}/trajectories",
  operation: "list_trajectory_updates",
  summary: "Updates with their counts, rewards and whether texts are kept.",
  in_view_mode: true,
  query: z.strictObject(UPDATE_LIST.query),
  answers: {
    200: {
      description: "The updates, newest first; none when the run exports no trajectories.",
      content: {
        [JSON_TYPE]: z.strictObject({
          updates: z.array(updateSummarySchema),
          next_cursor: nextCursor,
          skipped_lines: skippedLines,
        }),
      },
    },
  },
  find: findTrajectories,
  async handler({ found, query }) {
    const { updates, skipped_lines } = await found?.index() ?? { updates: [], skipped_lines: 0 };
    // Texts of equal length have the order of their numbers.
    const keyOf = ({ update }: { update: number }) => String(update).padStart(9, "0");
    const { items, next_cursor } = UPDATE_LIST.page(updates.toReversed(), { ...query, keyOf, falling: true });
    return json(200, { updates: items.map(updateSummary), next_cursor, skipped_lines });
  },
});

const getUpdate = route({
  method: "GET",
  path: "/v1/runs/{id}/trajectories/updates/{update}",
  operation: "get_trajectory_update",
  summary: "The groups of an update, without texts.",
  in_view_mode: true,
  query: z.strictObject(GROUP_LIST.query),
  answers: {
    200: {
      description: "The groups in order, each with its members.",
      content: {
        [JSON_TYPE]: z.strictObject({
          groups: z.array(groupSummarySchema),
          next_cursor: nextCursor,
          skipped_lines: skippedLines,
        }),
      },
    },
  },
  find: findUpdate,
  async handler({ found: { run, update }, query: { limit, cursor } }) {
    const after = GROUP_LIST.numberOf(cursor, -1);
    const { items, next, skipped_lines } = await run.groups(update, { after, limit });
    return json(200, { groups: items, next_cursor: cursorOf(GROUP_LIST, next), skipped_lines });
  },
});

const getGroup = route({
  method: "GET",
  path: "/v1/runs/{id}/trajectories/updates/{update}/groups/{group}",
  operation: "get_trajectory_group",
  summary: "A group with every text.",
  in_view_mode: true,
  query: z.strictObject({
    ...MEMBER_LIST.query,
    member: wholeNumber.optional().meta({ description: "Only this member, by its number." }),
  }),
  answers: {
    200: {
      description:
        "The group with its members in order. Texts are null in an update that does not keep them.",
      content: {
        [JSON_TYPE]: groupSchema.extend({
          members: z.array(memberSchema),
          next_cursor: nextCursor,
          skipped_lines: skippedLines,
        }).meta({ id: "TrajectoryGroup" }),
      },
    },
  },
  find: findGroup,
  async handler({ found, query: { limit, cursor, member } }) {
    if (member !== undefined && !found.members.includes(member)) {
      throw notFound("The group has no such member", "/query/member");
    }
    const after = MEMBER_LIST.numberOf(cursor, -1);
    const view = await found.run.group(found, { after, limit, member });
    if (!view) throw notFound("The update has no such group any more", "/path/group");
    const { members: { items, next, skipped_lines }, ...group } = view;
    return json(200, { ...group, members: items, next_cursor: cursorOf(MEMBER_LIST, next), skipped_lines });
  },
});

const listTokens = route({
  method: "GET",
  path: "/v1/runs/{id}/trajectories/updates/{update}/groups/{group}/members/{member}/tokens",
  operation: "list_trajectory_tokens",
  summary: "The tokens of a member as they were trained.",
  in_view_mode: true,
  query: z.strictObject(TOKEN_LIST.query),
  answers: {
    200: {
      description: "The tokens in order, those of all fragments one after another.",
      content: {
        [JSON_TYPE]: z.strictObject({
          tokens: z.array(tokenSchema),
          next_cursor: nextCursor,
          skipped_lines: skippedLines,
        }),
      },
    },
  },
  find: findMember,
  async handler({ found, query: { limit, cursor } }) {
    const after = TOKEN_LIST.numberOf(cursor, -1);
    const tokens = await found.run.tokens(found, { after, limit });
    if (!tokens) throw noTokens();
    const { items, next, skipped_lines } = tokens;
    return json(200, { tokens: items, next_cursor: cursorOf(TOKEN_LIST, next), skipped_lines });
  },
});

export const TRAJECTORY_ROUTES: readonly Route[] = [
  listUpdates,
  ...TRAJECTORY_SEARCH_ROUTES,
  getUpdate,
  getGroup,
  listTokens,
];
