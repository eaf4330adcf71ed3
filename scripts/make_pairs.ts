/**
 * `deno run -A scripts/make_pairs.ts <folder of trajectories>…`: makes preference pairs from kept attempts. For each
 * scenario whose attempts have different rewards, its best attempt is chosen and its worst rejected; the first among
 * equals, and the first group of a scenario. Writes examples/tiny_agent_pairs.train.jsonl and, from every third
 * scenario, .heldout.jsonl.
 */

import { fileURLToPath } from "node:url";
import { writeFileAtomic } from "../core/files.ts";

/** The fields of a group in an observe directory that are used here; agent/results/observed.ts has all of them. */
interface ObservedGroup {
  scenario: string;
  tools: object[];
  prompt_messages: object[];
  members: { status: string; total_reward: number | null; messages: object[] }[];
}

async function* observedGroups(folder: string): AsyncGenerator<ObservedGroup> {
  const names = [...Deno.readDirSync(folder)].map(({ name }) => name).filter((name) =>
    name.startsWith("update_")
  );
  for (const name of names.sort()) {
    const groups: ObservedGroup[] = [];
    for (const line of (await Deno.readTextFile(`${folder}/${name}`)).trimEnd().split("\n")) {
      const { group, member, facts, texts } = JSON.parse(line);
      if (facts) groups[group] = facts;
      else if (texts) {
        Object.assign(member === undefined ? groups[group]! : groups[group]!.members[member]!, texts);
      }
    }
    // An update without texts has no messages.
    yield* groups.filter(({ prompt_messages }) => prompt_messages);
  }
}

/** The pair of a group; null when all attempts have the same reward. */
function pairOf({ tools, prompt_messages: prompt, members }: ObservedGroup): string | null {
  const rewarded = members.filter(({ status, total_reward }) => status === "kept" && total_reward !== null);
  const ordered = rewarded.toSorted((a, b) => b.total_reward! - a.total_reward!);
  const best = ordered[0],
    worst = ordered.find(({ total_reward }) => total_reward === ordered.at(-1)!.total_reward);
  if (!best || !worst || best.total_reward === worst.total_reward) return null;
  const completion = ({ messages }: typeof best) => messages.slice(prompt.length);
  return JSON.stringify({ prompt, chosen: completion(best), rejected: completion(worst), tools });
}

if (import.meta.main) {
  const rows = new Map<string, string>();
  for (const folder of Deno.args) {
    for await (const group of observedGroups(folder)) {
      const row = pairOf(group);
      if (row !== null && !rows.has(group.scenario)) rows.set(group.scenario, row);
    }
  }
  const all = [...rows.values()];
  const parts = { train: all.filter((_, i) => i % 3 !== 2), heldout: all.filter((_, i) => i % 3 === 2) };
  for (const [part, lines] of Object.entries(parts)) {
    const path = fileURLToPath(new URL(`../examples/tiny_agent_pairs.${part}.jsonl`, import.meta.url));
    await writeFileAtomic(path, lines.map((line) => `${line}\n`).join(""));
    console.log(`${path}: ${lines.length} pairs`);
  }
}
