/** Searches the members of a run's groups, and compares two members of a group. */

import { z } from "zod";
import type { MemberPlace } from "../../runs/views/observed_run.ts";
import { searchMembers } from "../../runs/views/search.ts";
import { diffSchema, failureBoundary, foundMemberSchema } from "../../runs/views/shapes.ts";
import { findGroup, findTrajectories, noTokens } from "../resources/find_trajectories.ts";
import { nextCursor, PagedList } from "../http/page.ts";
import { notFound } from "../http/problems.ts";
import { json, type Route, route } from "../routing/route.ts";
import { decimalNumber, skippedLines, wholeNumber } from "../resources/trajectory_fields.ts";

const JSON_TYPE = "application/json";

/** The longest text to search for. */
const MAX_TEXT_CHARS = 1000;

const START: MemberPlace = { update: 0, group: 0, member: 0 };

/** The key is a member's update, group and number. */
const FOUND_LIST = new PagedList("found_members", /^\d{1,9}\.\d{1,9}\.\d{1,9}$/);

function placeOf(cursor: string | undefined): MemberPlace {
  const key = FOUND_LIST.keyOf(cursor);
  if (key === null) return START;
  const [update, group, member] = key.split(".").map(Number) as [number, number, number];
  return { update, group, member };
}

const search = route({
  method: "GET",
  path: "/v1/runs/{id}/trajectories/search",
  operation: "search_trajectories",
  summary: "Members by scenario, ending, failure, reward, tool or text.",
  in_view_mode: true,
  query: z.strictObject({
    ...FOUND_LIST.query,
    scenario: z.string().optional().meta({ description: "The scenario's id." }),
    stop_reason: foundMemberSchema.shape.stop_reason.optional().meta({
      description: "How the member ended.",
    }),
    failure: failureBoundary.optional().meta({ description: "Where it failed." }),
    min_reward: decimalNumber.optional().meta({ description: "The least total reward." }),
    max_reward: decimalNumber.optional().meta({ description: "The largest total reward." }),
    tool: z.string().min(1).max(MAX_TEXT_CHARS).optional().meta({
      description: `The name of a tool that it called. Up to ${MAX_TEXT_CHARS} characters.`,
    }),
    text: z.string().min(1).max(MAX_TEXT_CHARS).optional().meta({
      description:
        `A part of a message, a call, a result or an explanation; upper and lower case are equal. Up to ${MAX_TEXT_CHARS} characters.`,
    }),
  }),
  answers: {
    200: {
      description:
        "The members that match, in order. One answer looks at a bounded part of the files: it can have fewer members " +
        "than limit, or none, with a next_cursor for the rest.",
      content: {
        [JSON_TYPE]: z.strictObject({
          members: z.array(foundMemberSchema),
          next_cursor: nextCursor,
          skipped_lines: skippedLines,
        }),
      },
    },
  },
  find: findTrajectories,
  async handler({ found, query: { limit, cursor, ...filter }, services: { clock } }) {
    const from = placeOf(cursor);
    const { members, next, skipped_lines } = found
      ? await searchMembers(found, { filter, from, limit, clock })
      : { members: [], next: null, skipped_lines: 0 };
    const next_cursor = next && FOUND_LIST.cursorOf(`${next.update}.${next.group}.${next.member}`);
    return json(200, { members, next_cursor, skipped_lines });
  },
});

const diff = route({
  method: "GET",
  path: "/v1/runs/{id}/trajectories/updates/{update}/groups/{group}/diff",
  operation: "diff_trajectories",
  summary: "Where two members of a group part.",
  in_view_mode: true,
  query: z.strictObject({
    a: wholeNumber.meta({ description: "A member." }),
    b: wholeNumber.meta({ description: "The member to compare it with." }),
  }),
  answers: {
    200: { description: "The first difference of their tokens.", content: { [JSON_TYPE]: diffSchema } },
  },
  find: findGroup,
  async handler({ found, query }) {
    for (const name of ["a", "b"] as const) {
      if (!found.members.includes(query[name])) {
        throw notFound("The group has no such member", `/query/${name}`);
      }
    }
    const difference = await found.run.diff(found, [query.a, query.b]);
    if (!difference) throw noTokens();
    return json(200, difference);
  },
});

export const TRAJECTORY_SEARCH_ROUTES: readonly Route[] = [search, diff];
