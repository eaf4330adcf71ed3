/** An observe directory whose every text tries to run a script. */

import { join } from "node:path";

/** Sets `globalThis.attacked` where a text is taken for HTML. A file may have it in its name. */
export const ATTEMPT = `<img src=x onerror="globalThis.attacked=1">`;

/** Keys whose values are texts for people: a model's, a tool's, a judge's or a scenario's. */
const TEXT_KEYS: ReadonlySet<string> = new Set([
  ...["scenario", "run_name", "content", "text", "result", "message", "name", "description"],
  ...["judge_explanation", "verification_output", "user", "system", "rubric", "command"],
]);

function attacked(value: unknown, key: string): unknown {
  if (typeof value === "string") return TEXT_KEYS.has(key) ? `${key}${ATTEMPT}${value}` : value;
  if (Array.isArray(value)) return value.map((item) => attacked(item, key === "texts" ? "text" : key));
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => {
      // What a model writes into its calls: every argument.
      if (key === "arguments") return [name + ATTEMPT, typeof inner === "string" ? inner + ATTEMPT : inner];
      return [name, attacked(inner, name)];
    }),
  );
}

/** Texts that the tiny model's runs do not have: a judge's, a failure's and a verification's. */
function withAllTexts(line: Record<string, unknown>): Record<string, unknown> {
  const { facts, texts, member } = line as {
    facts?: { members: Record<string, unknown>[] };
    texts?: Record<string, unknown>;
    member?: number;
  };
  if (facts) {
    const failure = { boundary: "tool", message: "" }, judge_score = 0.5;
    const verification = { ended: "exited", code: 1, capped: false };
    return {
      ...line,
      facts: {
        ...facts,
        members: facts.members.map((one) => ({ ...one, failure, judge_score, verification })),
      },
    };
  }
  if (!texts || member === undefined) return line;
  return { ...line, texts: { ...texts, judge_explanation: "", verification_output: "" } };
}

/** Copies an observe directory with an attempt in every text. */
export async function writeHostile(from: string, to: string): Promise<void> {
  await Deno.mkdir(to);
  for await (const { name } of Deno.readDir(from)) {
    if (!name.endsWith(".jsonl")) continue;
    const lines = (await Deno.readTextFile(join(from, name))).trim().split("\n");
    const hostile = lines.map((line) => JSON.stringify(attacked(withAllTexts(JSON.parse(line)), "")));
    await Deno.writeTextFile(join(to, name), hostile.join("\n") + "\n");
  }
}
