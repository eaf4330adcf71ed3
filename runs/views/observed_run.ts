/** Answers questions about the trajectories of a run from its observe directory, which may still be written. */

import {
  type GroupFacts,
  groupFactsSchema,
  type GroupTexts,
  groupTextsSchema,
  memberTextsSchema,
  type ObservedUpdate,
  tokenPartSchema,
} from "../../agent/results/observed.ts";
import { groupFields, groupSummary, memberView, tokenViews } from "./member_views.ts";
import { type IndexView, ObservedIndex } from "./observed_index.ts";
import type { Diff, MemberView, TokenView, TrajectoryGroupSummary } from "./shapes.ts";
import { type FindOptions, type FoundLine, LineTables, UpdateLines } from "./update_lines.ts";

/** The most bytes of lines in a page; a page has at least one item. */
const MAX_PAGE_BYTES = 4 << 20;

/** Which items of a list are wanted: those whose key is above `after`, at most `limit`. */
export interface PageRequest {
  /** −1: from the start. */
  after: number;
  limit: number;
}

/** Which members of a group are wanted. */
export interface MembersRequest extends PageRequest {
  /** Only this one. */
  member?: number | undefined;
}

/** Items of a list; `next` is the key of the last one when there are more. */
export interface ViewPage<T> {
  items: T[];
  next: number | null;
  skipped_lines: number;
}

/** The place of a group. */
export interface GroupPlace {
  update: number;
  group: number;
}

/** The place of a member. */
export interface MemberPlace extends GroupPlace {
  member: number;
}

/** A group with texts. */
export interface GroupView extends GroupPlace, ReturnType<typeof groupFields> {
  texts_kept: boolean;
  task: GroupTexts["task"];
  tools: GroupTexts["tools"] | null;
  members: ViewPage<MemberView>;
}

/** The entry of an update in the index. */
export function updateEntry({ updates }: IndexView, update: number): ObservedUpdate | null {
  return updates.find((entry) => entry.update === update) ?? null;
}

/** The trajectories in an observe directory. */
export class ObservedRun {
  readonly #index: ObservedIndex;

  constructor(readonly directory: string, readonly tables: LineTables) {
    this.#index = new ObservedIndex(directory);
  }

  /** The updates in order. */
  index(): Promise<IndexView> {
    return this.#index.read();
  }

  /** Opens an update's file; null when there is none. The caller disposes of it. */
  open(update: number, options: FindOptions = {}): Promise<UpdateLines | null> {
    return UpdateLines.open(this.directory, update, { tables: this.tables, ...options });
  }

  /** The groups of an update without texts. */
  async groups(update: number, request: PageRequest): Promise<ViewPage<TrajectoryGroupSummary>> {
    using file = await this.open(update);
    if (!file) return { items: [], next: null, skipped_lines: 0 };
    return await pageOf(file, request, {
      items: file.lines.filter(({ kind }) => kind === "facts"),
      keyOf: ({ group }) => group,
      read: async (line) => {
        const facts = await file.read(line, groupFactsSchema);
        return facts && groupSummary(line.group, facts);
      },
    });
  }

  /** The facts of a group; null when it is not there. */
  async facts({ update, group }: GroupPlace): Promise<GroupFacts | null> {
    using file = await this.open(update);
    return file && await factsIn(file, group);
  }

  /** A group with the texts of its members, or of one of them; null when it is not there. */
  async group({ update, group }: GroupPlace, request: MembersRequest): Promise<GroupView | null> {
    using file = await this.open(update);
    const facts = file && await factsIn(file, group);
    if (!file || !facts) return null;
    const texts = file.lines.filter((line) => line.kind === "texts" && line.group === group);
    const shared = texts.find(({ member }) => member === null);
    const read = shared ? await file.read(shared, groupTextsSchema) : null;
    const { task = null, tools = null } = read ?? {};
    const members = await pageOf(file, request, {
      items: facts.members.filter(({ member }) => request.member === undefined || member === request.member),
      keyOf: ({ member }) => member,
      read: async (member) => {
        const line = texts.find((line) => line.member === member.member);
        return memberView(member, line ? await file.read(line, memberTextsSchema) : null);
      },
    });
    return { ...groupFields(group, facts), update, texts_kept: shared !== undefined, task, tools, members };
  }

  /** The tokens of a member; null when they are not kept. A part that cannot be read ends the list. */
  async tokens(place: MemberPlace, { after, limit }: PageRequest): Promise<ViewPage<TokenView> | null> {
    using file = await this.open(place.update);
    if (!file || partsOf(file, place).length === 0) return null;
    const items: TokenView[] = [];
    let next: number | null = null;
    for await (const { start, tokens, is_last } of tokenParts(file, place, after + 1)) {
      const from = after + 1 + items.length - start;
      items.push(...tokens.slice(from, from + limit - items.length));
      if (items.length < limit) continue;
      const end = after + 1 + limit;
      next = end < start + tokens.length || !is_last ? end - 1 : null;
      break;
    }
    return { items, next, skipped_lines: file.skipped_lines };
  }

  /** Where the tokens of two members of a group part; null when those of one are not kept. */
  async diff({ update, group }: GroupPlace, [a, b]: readonly [number, number]): Promise<Diff | null> {
    using file = await this.open(update);
    if (!file) return null;
    const places = [a, b].map((member) => ({ update, group, member }));
    if (places.some((place) => partsOf(file, place).length === 0)) return null;
    const [left, right] = places.map((place) => tokenParts(file, place, 0)) as [TokenParts, TokenParts];
    const found = await firstDifference(left, right);
    if (!found) return { a, b, turn: null, token: null, a_token: null, b_token: null };
    let turn: number | null = null;
    for (const place of places) {
      const begun = await turnAt(file, place, found.token);
      if (begun !== null) turn = Math.max(turn ?? 0, begun);
    }
    return { a, b, turn, ...found };
  }
}

interface Source<I, T> {
  items: readonly I[];
  /** A number that no two items share. */
  keyOf: (item: I) => number;
  /** Null: it could not be read. */
  read: (item: I) => Promise<T | null>;
}

/** A page of what can be read, in the order of the keys. */
async function pageOf<I, T>(
  file: UpdateLines,
  { after, limit }: PageRequest,
  { items, keyOf, read }: Source<I, T>,
): Promise<ViewPage<T>> {
  const left = items.filter((item) => keyOf(item) > after).sort((a, b) => keyOf(a) - keyOf(b));
  const found: T[] = [], before = file.read_bytes;
  let last: I | null = null;
  for (const item of left) {
    if (found.length === limit || (last && file.read_bytes - before >= MAX_PAGE_BYTES)) break;
    const value = await read(item);
    if (value !== null) found.push(value);
    last = item;
  }
  const next = last === null || last === left.at(-1) ? null : keyOf(last);
  return { items: found, next, skipped_lines: file.skipped_lines };
}

async function factsIn(file: UpdateLines, group: number): Promise<GroupFacts | null> {
  const line = file.lines.find((line) => line.kind === "facts" && line.group === group);
  return line ? await file.read(line, groupFactsSchema) : null;
}

/** The lines with the tokens of a member, in order. */
function partsOf(file: UpdateLines, { group, member }: MemberPlace): FoundLine[] {
  return file.lines.filter((line) => line.kind === "part" && line.group === group && line.member === member)
    .sort((a, b) => a.start - b.start);
}

type TokenParts = AsyncGenerator<{ start: number; tokens: TokenView[]; is_last: boolean }>;

/** The parts with a member's tokens from a position on. Ends before a part that is missing or cannot be read. */
async function* tokenParts(file: UpdateLines, place: MemberPlace, from: number): TokenParts {
  const lines = partsOf(file, place);
  let position = from;
  for (const [i, line] of lines.entries()) {
    const following = lines[i + 1];
    if (following && following.start <= from) continue;
    const part = line.start <= position ? await file.read(line, tokenPartSchema) : null;
    if (!part) return;
    const tokens = tokenViews(part);
    yield { start: line.start, tokens, is_last: !following };
    position = line.start + tokens.length;
  }
}

async function firstDifference(
  left: TokenParts,
  right: TokenParts,
): Promise<{ token: number; a_token: TokenView | null; b_token: TokenView | null } | null> {
  let a: TokenView[] = [], b: TokenView[] = [];
  for (let position = 0;;) {
    if (a.length === 0) a = (await left.next()).value?.tokens ?? [];
    if (b.length === 0) b = (await right.next()).value?.tokens ?? [];
    const common = Math.min(a.length, b.length);
    let i = 0;
    while (i < common && a[i]!.id === b[i]!.id) i++;
    if (i < common || common === 0) {
      const a_token = a[i] ?? null, b_token = b[i] ?? null;
      return a_token || b_token ? { token: position + i, a_token, b_token } : null;
    }
    [a, b, position] = [a.slice(common), b.slice(common), position + common];
  }
}

/** The last turn of a member that has begun at a token; null before the first. */
async function turnAt(
  file: UpdateLines,
  { group, member }: MemberPlace,
  token: number,
): Promise<number | null> {
  const is_theirs = (line: FoundLine) =>
    line.kind === "texts" && line.group === group && line.member === member;
  const line = file.lines.find(is_theirs);
  const texts = line ? await file.read(line, memberTextsSchema) : null;
  const turn = texts?.turns.findLastIndex(({ start }) => start <= token) ?? -1;
  return turn < 0 ? null : turn;
}
