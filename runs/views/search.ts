/** Searches the members of a run's trajectories, a bounded amount of work at a time. */

import {
  groupFactsSchema,
  type MemberFacts,
  type MemberTexts,
  memberTextsSchema,
  type ObservedUpdate,
} from "../../agent/results/observed.ts";
import type { StopReason } from "../../agent/trajectory/trajectory.ts";
import type { Clock } from "../../core/clock.ts";
import { memberSummary } from "./member_views.ts";
import type { MemberPlace, ObservedRun } from "./observed_run.ts";
import type { FoundMember } from "./shapes.ts";
import type { UpdateLines } from "./update_lines.ts";

/** Conditions that a member must meet; an absent one is met. */
export interface SearchFilter {
  scenario?: string | undefined;
  stop_reason?: StopReason | undefined;
  /** The boundary of its failure. */
  failure?: string | undefined;
  /** Bounds of its total reward, which it must have. */
  min_reward?: number | undefined;
  max_reward?: number | undefined;
  /** A part of a message, a call, a result, or the judge's explanation; upper and lower case are equal. */
  text?: string | undefined;
  /** The name of a tool that it called. */
  tool?: string | undefined;
}

/** The work of one search. A later search continues where it stopped. */
export interface SearchLimits {
  bytes: number;
  ms: number;
}

const SEARCH_LIMITS: SearchLimits = { bytes: 64 << 20, ms: 1000 };

export interface SearchRequest {
  filter: SearchFilter;
  /** The first place to look at. */
  from: MemberPlace;
  limit: number;
  clock: Clock;
  limits?: SearchLimits;
}

export interface SearchResult {
  members: FoundMember[];
  /** The first place that was not looked at; null: nothing is left. */
  next: MemberPlace | null;
  skipped_lines: number;
}

/** Members that match, in the order of updates, groups and members. At least one place is looked at. */
export async function searchMembers(run: ObservedRun, request: SearchRequest): Promise<SearchResult> {
  const { updates, skipped_lines } = await run.index();
  const search = new Search(request);
  let skipped = skipped_lines;
  for (const entry of updates) {
    if (entry.update < request.from.update || !mayHave(entry, request.filter)) continue;
    if (search.isSpent()) {
      return {
        members: search.found,
        next: { update: entry.update, group: 0, member: 0 },
        skipped_lines: skipped,
      };
    }
    using file = await run.open(entry.update, {
      before: needsTexts(request.filter) ? "part" : "texts",
    });
    if (!file) continue;
    const next = await search.update(file, entry.update);
    skipped += file.skipped_lines;
    if (next) return { members: search.found, next, skipped_lines: skipped };
  }
  return { members: search.found, next: null, skipped_lines: skipped };
}

/** Whether texts decide what matches. */
function needsTexts({ text, tool }: SearchFilter): boolean {
  return text !== undefined || tool !== undefined;
}

/** Whether the index lets an update have a match. */
function mayHave({ groups, texts_kept }: ObservedUpdate, filter: SearchFilter): boolean {
  const { scenario } = filter;
  return (texts_kept || !needsTexts(filter)) &&
    (scenario === undefined || groups.some((group) => group.scenario === scenario));
}

class Search {
  readonly found: FoundMember[] = [];
  readonly #request: SearchRequest;
  readonly #started_ms: number;
  readonly #limits: SearchLimits;
  /** Bytes that were read, apart from the open file. */
  #bytes = 0;
  #file: UpdateLines | null = null;
  /** Whether a member was looked at, so that the next search gets further. */
  #has_looked = false;

  constructor(request: SearchRequest) {
    this.#request = request;
    this.#started_ms = request.clock.monotonic_ms();
    this.#limits = request.limits ?? SEARCH_LIMITS;
  }

  /** Whether the rest is left to another search. */
  isSpent(): boolean {
    const { limit, clock } = this.#request;
    if (this.found.length >= limit) return true;
    const bytes = this.#bytes + (this.#file?.read_bytes ?? 0);
    const ms = clock.monotonic_ms() - this.#started_ms;
    return this.#has_looked && (bytes >= this.#limits.bytes || ms >= this.#limits.ms);
  }

  /** Looks at the members of an update. @returns The first place that is left, or null. */
  async update(file: UpdateLines, update: number): Promise<MemberPlace | null> {
    this.#file = file;
    const { from, filter } = this.#request;
    const first = update === from.update ? from : { group: 0, member: 0 };
    const lines = file.lines.filter(({ kind, group }) => kind === "facts" && group >= first.group);
    for (const line of lines.sort((a, b) => a.group - b.group)) {
      const { group } = line, first_member = group === first.group ? first.member : 0;
      if (this.isSpent()) return { update, group, member: first_member };
      const facts = await file.read(line, groupFactsSchema);
      if (!facts || (filter.scenario ?? facts.scenario) !== facts.scenario) {
        this.#has_looked = true;
        continue;
      }
      for (const member of facts.members.toSorted((a, b) => a.member - b.member)) {
        const place = { update, group, member: member.member };
        if (member.member < first_member) continue;
        if (this.isSpent()) return place;
        this.#has_looked = true;
        if (!hasFacts(member, filter) || !await this.#hasTexts(file, place)) continue;
        this.found.push({ ...memberSummary(member), update, group, scenario: facts.scenario });
      }
    }
    this.#bytes += file.read_bytes;
    this.#file = null;
    return null;
  }

  async #hasTexts(file: UpdateLines, { group, member }: MemberPlace): Promise<boolean> {
    const { filter } = this.#request;
    if (!needsTexts(filter)) return true;
    const line = file.lines.find((line) =>
      line.kind === "texts" && line.group === group && line.member === member
    );
    const texts = line ? await file.read(line, memberTextsSchema) : null;
    if (!texts) return false;
    const wanted = filter.text?.toLowerCase();
    return (wanted === undefined || textsOf(texts).some((each) => each.toLowerCase().includes(wanted))) &&
      (filter.tool === undefined ||
        callsOf(texts).some(({ name, malformed }) => name === filter.tool && !malformed));
  }
}

function hasFacts(member: MemberFacts, filter: SearchFilter): boolean {
  const { stop_reason, failure, min_reward, max_reward } = filter;
  const { total_reward } = member;
  if (min_reward !== undefined && (total_reward === null || total_reward < min_reward)) return false;
  if (max_reward !== undefined && (total_reward === null || total_reward > max_reward)) return false;
  return (stop_reason ?? member.stop_reason) === member.stop_reason &&
    (failure === undefined || failure === member.failure?.boundary);
}

function callsOf({ turns }: MemberTexts) {
  return turns.flatMap(({ calls }) => calls);
}

/** All texts of a member, arguments of calls as JSON. */
function textsOf(texts: MemberTexts): string[] {
  const { messages, turns, judge_explanation, verification_output } = texts, calls = callsOf(texts);
  const of_messages = messages.flatMap(({ content, reasoning_content = "", tool_calls = [] }) => [
    content,
    reasoning_content,
    ...tool_calls.flatMap(({ function: { name, arguments: given } }) => [name, JSON.stringify(given) ?? ""]),
  ]);
  const of_calls = calls.flatMap(({ name, text, result, failure }) => [name, text, result, failure?.message]);
  const others = [...turns.map(({ text }) => text), ...of_calls, judge_explanation, verification_output];
  return [...of_messages, ...others.filter((text) => typeof text === "string")];
}
