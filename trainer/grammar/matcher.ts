/**
 * Follows a text byte by byte through a grammar: a pushdown automaton whose terminals are regular expressions. While
 * alternatives cannot be told apart yet, all of them are followed.
 */

import { ServiceError } from "../../core/errors.ts";
import { MAX_TEXT_DEPTH, MAX_THREADS } from "./limits.ts";
import type { Regex, RegexArena } from "./regex.ts";
import { type GrammarSymbol, Rule } from "./rules.ts";

/** The symbols that must follow, as a linked list; equal lists of one stack are one object. */
export interface Frame {
  readonly id: number;
  readonly symbol: GrammarSymbol;
  /** Null: the text may end. */
  readonly below: Frame | null;
  /** Levels of containers. */
  readonly depth: number;
}

/** An expression that the next bytes match, and what follows it. */
export interface Thread {
  readonly regex: Regex;
  readonly below: Frame | null;
}

/** All alternatives at a point of a text. */
export interface MatchState {
  readonly threads: readonly Thread[];
  /** Whether the text may end here. */
  readonly is_end: boolean;
}

/** Frames whose beginnings are kept. */
const MAX_OPENED = 256;

const NO_MATCH: MatchState = { threads: [], is_end: false };

/** The frames of one text. */
export class Stack {
  readonly #frames = new Map<string, Frame>();
  readonly #after = new Map<Frame | null, MatchState>();

  constructor(readonly arena: RegexArena) {}

  /** The state before the first byte of these symbols. */
  begin(symbols: readonly GrammarSymbol[]): MatchState {
    return this.after(this.#push(symbols, null, 0));
  }

  #push(symbols: readonly GrammarSymbol[], below: Frame | null, depth: number): Frame | null {
    return symbols.reduceRight((frame, symbol) => this.#frame(symbol, frame, depth), below);
  }

  #frame(symbol: GrammarSymbol, below: Frame | null, depth: number): Frame {
    const kind = symbol instanceof Rule ? "r" : "x";
    const key = `${kind}${symbol.id},${below?.id ?? ""},${depth}`;
    let frame = this.#frames.get(key);
    if (!frame) this.#frames.set(key, frame = { id: this.#frames.size, symbol, below, depth });
    return frame;
  }

  /** The state in which a frame comes next; null is the end of the text. */
  after(frame: Frame | null): MatchState {
    let state = this.#after.get(frame);
    if (!state) {
      const found = new ThreadSet();
      this.#open(frame, found);
      if (this.#after.size >= MAX_OPENED) this.#after.clear();
      this.#after.set(frame, state = found);
    }
    return state;
  }

  /** The state after a byte; without threads when nothing matches. */
  next(state: MatchState, byte: number): MatchState {
    const { arena } = this, inside: Thread[] = [], ended: (Frame | null)[] = [];
    for (const { regex, below } of state.threads) {
      const next = arena.next(regex, byte);
      if (next === arena.none) continue;
      if (next !== arena.empty) inside.push({ regex: next, below });
      if (next.is_nullable && !ended.includes(below)) ended.push(below);
    }
    if (ended.length === 0) return inside.length === 0 ? NO_MATCH : { threads: inside, is_end: false };
    const after = this.after(ended[0]!);
    if (ended.length === 1 && inside.length === 0) return after;
    const found = new ThreadSet();
    for (const { regex, below } of inside) found.add(regex, below);
    for (const frame of ended) found.addAll(this.after(frame));
    return found;
  }

  /** Adds the expressions with which a frame can begin. */
  #open(start: Frame | null, found: ThreadSet): void {
    const open = [start];
    for (let frame = open.pop(); frame !== undefined; frame = open.pop()) {
      if (frame === null) found.is_end = true;
      else if (!found.isNew(frame)) continue;
      else if (frame.symbol instanceof Rule) {
        const { below, depth, symbol } = frame, { choices } = symbol;
        for (let i = choices.length - 1; i >= 0; i--) {
          const { symbols, height, opens } = choices[i]!;
          if (depth + height > MAX_TEXT_DEPTH) continue;
          open.push(this.#push(symbols, below, opens ? depth + 1 : depth));
        }
      } else {
        if (frame.symbol !== this.arena.empty) found.add(frame.symbol, frame.below);
        if (frame.symbol.is_nullable) open.push(frame.below);
      }
    }
  }
}

class ThreadSet implements MatchState {
  readonly threads: Thread[] = [];
  readonly #known = new Map<Frame | null, Set<Regex>>();
  readonly #opened = new Set<Frame>();
  is_end = false;

  /** @throws {ServiceError} `config_invalid` when the schema's alternatives are too many. */
  add(regex: Regex, below: Frame | null): void {
    let known = this.#known.get(below);
    if (!known) this.#known.set(below, known = new Set());
    if (known.has(regex)) return;
    known.add(regex);
    this.threads.push({ regex, below });
    if (this.threads.length <= MAX_THREADS) return;
    throw new ServiceError(
      "config_invalid",
      `Cannot follow the JSON schema: more than ${MAX_THREADS} alternatives match the text so far. ` +
        "Let alternatives begin with different properties or values, and make properties required",
    );
  }

  addAll({ threads, is_end }: MatchState): void {
    for (const { regex, below } of threads) this.add(regex, below);
    this.is_end ||= is_end;
  }

  isNew(frame: Frame): boolean {
    if (this.#opened.has(frame)) return false;
    this.#opened.add(frame);
    return true;
  }
}
