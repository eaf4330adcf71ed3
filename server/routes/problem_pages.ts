/** A page for people about each type of problem. */

import { z } from "zod";
import { escapeHtml, htmlPage } from "../http/html.ts";
import { CODE_HELP, isProblemType, PROBLEM_TYPES, type ProblemType } from "../http/problem_types.ts";
import { notFound } from "../http/problems.ts";
import { FOREIGN_HOST, raw, type Route, route } from "../routing/route.ts";

function problemPage(kind: ProblemType): string {
  const { status, title, when, action, codes } = PROBLEM_TYPES[kind];
  const rows = codes.map((code) => `<dt><code>${code}</code></dt>\n<dd>${escapeHtml(CODE_HELP[code])}</dd>`);
  const body = [
    `<h1>${escapeHtml(title)}</h1>`,
    `<p><code>${kind}</code>, HTTP status ${status}</p>`,
    "<h2>When it happens</h2>",
    `<p>${escapeHtml(when)}</p>`,
    "<h2>What to do</h2>",
    `<p>${escapeHtml(action)}</p>`,
    ...(rows.length > 0 ? ["<h2>Codes of errors[]</h2>", `<dl>\n${rows.join("\n")}\n</dl>`] : []),
  ];
  return htmlPage(`${kind} (${status})`, body.join("\n"));
}

const getProblemPage = route({
  method: "GET",
  path: "/problems/{kind}",
  operation: "get_problem_page",
  summary: "The meaning of a type of problem, for people; needs no token.",
  answers: {
    200: {
      description: "The page. Like every HTML answer it may load only files of this server.",
      content: { "text/html": z.string() },
      headers: { "Content-Security-Policy": "The same for every HTML answer." },
    },
    401: FOREIGN_HOST,
    404: { description: "There is no such type.", content: { "text/plain": z.string() } },
  },
  find({ kind }) {
    if (!isProblemType(kind)) throw notFound("There is no such type of problem");
    return Promise.resolve(kind);
  },
  handler: ({ found }) => raw(200, "text/html", problemPage(found)),
});

export const PROBLEM_PAGE_ROUTES: readonly Route[] = [getProblemPage];
