/** The problems that a route can answer with. */

import type { z } from "zod";
import type { DeclaredProblems } from "../http/problems.ts";
import type { ProblemCode, ProblemType } from "../http/problem_types.ts";
import { isApi, pathNames, type Route } from "./route.ts";

/** The codes from checking query parameters. */
function queryCodes(query: z.ZodObject | undefined): ProblemCode[] {
  const fields = Object.values(query?.shape ?? {}) as z.ZodType[];
  const is_required = fields.some((field) => !field.safeParse(undefined).success);
  return [
    "unknown_field",
    ...(fields.length > 0 ? ["invalid_value", "out_of_range"] as const : []),
    ...(is_required ? ["missing_field"] as const : []),
  ];
}

/** The problems that follow from a route's path, parameters and body. */
function formProblems(entry: Route): DeclaredProblems {
  if (!isApi(entry.path)) return {};
  const always = { unauthorized: ["unauthorized"], internal: [] } as const;
  const codes = queryCodes(entry.query);
  const takes_body = entry.method === "POST" || entry.method === "PATCH";
  return {
    ...always,
    ...(entry.offReason ? { "not-implemented": [] } as const : {}),
    ...(pathNames(entry.path).length > 0 ? { "not-found": ["not_found"] } as const : {}),
    ...(takes_body ? { "unsupported-media-type": ["unsupported_format"] } as const : {}),
    ...(entry.body ? { "payload-too-large": ["out_of_range"] } as const : {}),
    "invalid-request": entry.body
      ? ["missing_field", "unknown_field", "invalid_value", "out_of_range"]
      : codes,
  };
}

/** All problems of a route: those of its form and those that its entry declares. */
export function problemsOf(entry: Route): DeclaredProblems {
  const all: Partial<Record<ProblemType, ProblemCode[]>> = {};
  for (const declared of [formProblems(entry), entry.problems ?? {}]) {
    for (const [type, codes] of Object.entries(declared) as [ProblemType, readonly ProblemCode[]][]) {
      all[type] = [...new Set([...(all[type] ?? []), ...codes])];
    }
  }
  return all;
}
