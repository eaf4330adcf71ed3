/**
 * Follows a text byte by byte through a grammar: a pushdown automaton whose terminals are regular expressions. While
 * alternatives cannot be told apart yet, all of them are followed.
 */

import { ServiceError } from "../../core/errors.ts";
import { MAX_TEXT_DEPTH, MAX_THREADS } from "./limits.ts";
import type { Regex, RegexArena } from "./regex.ts";
import { type GrammarSymbol, Rule } from "./rules.ts";

/** What must follow, as a linked list; equal lists of one stack are one object. */
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

/** The frames of one text. */
export class Stack {
  readonly #frames = new Map<string, Frame>();

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
    const found = new ThreadSet();
    this.#open(frame, found);
    return found;
  }

  /** The state after a byte; without threads when nothing matches. */
  next(state: MatchState, byte: number): MatchState {
    const { arena } = this, found = new ThreadSet();
    for (const { regex, below } of state.threads) {
      const next = arena.next(regex, byte);
      if (next === arena.none) continue;
      if (next !== arena.empty) found.add(next, below);
      if (next.is_nullable) this.#open(below, found);
    }
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

  isNew(frame: Frame): boolean {
    if (this.#opened.has(frame)) return false;
    this.#opened.add(frame);
    return true;
  }
}
