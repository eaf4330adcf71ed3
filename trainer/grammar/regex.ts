/**
 * Regular expressions over bytes with their derivatives. Equal expressions are one object, so an expression is a state
 * of an automaton whose transitions are computed when they are first needed.
 *
 * @source Brzozowski, "Derivatives of Regular Expressions", JACM 11(4), 1964; Owens, Reppy and Turon,
 * "Regular-expression derivatives re-examined", JFP 19(2), 2009.
 */

import { assert } from "../../core/errors.ts";
import { type ByteSet, byteSet, hasByte, joinSets, representatives } from "./byte_set.ts";
import type { CompileBudget } from "./limits.ts";

type Form =
  /** No text. */
  | { type: "none" }
  /** The empty text. */
  | { type: "empty" }
  /** One byte of the set. */
  | { type: "bytes"; set: ByteSet }
  | { type: "concat"; head: Regex; tail: Regex }
  | { type: "either"; items: readonly Regex[] }
  | { type: "both"; items: readonly Regex[] }
  | { type: "not"; item: Regex }
  /** `min` to `max` times. */
  | { type: "repeat"; item: Regex; min: number; max: number }
  /** Decimal digits that make the number `remainder` followed by them divisible. */
  | { type: "modulo"; divisor: number; remainder: number };

/** An expression, which is also the state after the bytes that led to it. */
export interface Regex {
  readonly id: number;
  readonly form: Form;
  /** Whether the empty text matches. */
  readonly is_nullable: boolean;
  /** By byte: the expression of what may follow; see {@link RegexArena.next}. */
  readonly next: (Regex | undefined)[];
  /** Known to match no text. */
  is_dead: boolean;
}

const DIGITS = byteSet([0x30, 0x39]);
/** Each digit alone: a remainder tells them apart. */
const SINGLE_DIGITS = Array.from({ length: 10 }, (_, digit) => byteSet([0x30 + digit, 0x30 + digit]));

/** Creates expressions and remembers them. */
export class RegexArena {
  readonly #known = new Map<string, Regex>();
  readonly #named = new Map<string, Regex>();
  readonly #explored = new Set<Regex>();
  readonly none: Regex;
  readonly empty: Regex;
  /** Every text. */
  readonly all: Regex;
  /** The budget that pays for new expressions; null: there is no limit. */
  budget: CompileBudget | null = null;

  constructor() {
    this.none = this.#intern("0", { type: "none" }, false);
    this.none.is_dead = true;
    this.empty = this.#intern("1", { type: "empty" }, true);
    this.all = this.not(this.none);
  }

  /** The expression of a name; `make` is called once for each name. */
  once(name: string, make: () => Regex): Regex {
    let regex = this.#named.get(name);
    if (!regex) this.#named.set(name, regex = make());
    return regex;
  }

  /** Expressions so far. */
  get size(): number {
    return this.#known.size;
  }

  bytes(set: ByteSet): Regex {
    return set.some((word) => word !== 0)
      ? this.#intern(`b${set.join()}`, { type: "bytes", set }, false)
      : this.none;
  }

  /** These bytes in order. */
  literal(bytes: Iterable<number>): Regex {
    return this.concat(...Array.from(bytes, (byte) => this.bytes(byteSet([byte, byte]))));
  }

  text(text: string): Regex {
    return this.literal(new TextEncoder().encode(text));
  }

  /** One of these texts. What they begin with in common is one expression. */
  texts(texts: readonly string[]): Regex {
    const encoder = new TextEncoder();
    return this.#words(texts.map((text) => encoder.encode(text)), 0);
  }

  #words(words: readonly Uint8Array[], at: number): Regex {
    const groups = Map.groupBy(words, (word) => word[at]);
    return this.either(
      ...Array.from(
        groups,
        ([byte, group]) =>
          byte === undefined ? this.empty : this.#pair(this.literal([byte]), this.#words(group, at + 1)),
      ),
    );
  }

  concat(...parts: readonly Regex[]): Regex {
    return parts.reduceRight((tail, head) => this.#pair(head, tail), this.empty);
  }

  #pair(head: Regex, tail: Regex): Regex {
    if (head === this.none || tail === this.none) return this.none;
    if (head === this.empty) return tail;
    if (tail === this.empty) return head;
    const { form } = head;
    if (form.type === "concat") return this.#pair(form.head, this.#pair(form.tail, tail));
    const key = `c${head.id},${tail.id}`;
    return this.#intern(key, { type: "concat", head, tail }, head.is_nullable && tail.is_nullable);
  }

  either(...parts: readonly Regex[]): Regex {
    let set: ByteSet | null = null;
    const items = new Set<Regex>();
    const add = (part: Regex) => {
      if (part.form.type === "either") part.form.items.forEach(add);
      else if (part.form.type === "bytes") set = set ? joinSets(set, part.form.set) : part.form.set;
      else if (part !== this.none) items.add(part);
    };
    parts.forEach(add);
    if (items.has(this.all)) return this.all;
    if (set) items.add(this.bytes(set));
    if (items.size === 0) return this.none;
    const sorted = [...items].sort((a, b) => a.id - b.id);
    if (sorted.length === 1) return sorted[0]!;
    const key = `e${sorted.map(({ id }) => id)}`;
    return this.#intern(key, { type: "either", items: sorted }, sorted.some((item) => item.is_nullable));
  }

  both(...parts: readonly Regex[]): Regex {
    const items = new Set<Regex>();
    const add = (part: Regex) => {
      if (part.form.type === "both") part.form.items.forEach(add);
      else if (part !== this.all) items.add(part);
    };
    parts.forEach(add);
    if (items.has(this.none)) return this.none;
    if (items.has(this.empty)) return [...items].every((item) => item.is_nullable) ? this.empty : this.none;
    if (items.size === 0) return this.all;
    const sorted = [...items].sort((a, b) => a.id - b.id);
    if (sorted.length === 1) return sorted[0]!;
    const key = `a${sorted.map(({ id }) => id)}`;
    return this.#intern(key, { type: "both", items: sorted }, sorted.every((item) => item.is_nullable));
  }

  not(item: Regex): Regex {
    if (item.form.type === "not") return item.form.item;
    return this.#intern(`n${item.id}`, { type: "not", item }, !item.is_nullable);
  }

  /** @param max May be infinite. */
  repeat(item: Regex, min: number, max: number): Regex {
    if (max < min) return this.none;
    if (max === 0 || item === this.empty) return this.empty;
    if (item === this.none) return min === 0 ? this.empty : this.none;
    if (min === 1 && max === 1) return item;
    const least = item.is_nullable ? 0 : min;
    const key = `r${item.id},${least},${max}`;
    return this.#intern(key, { type: "repeat", item, min: least, max }, least === 0);
  }

  optional(item: Regex): Regex {
    return this.either(this.empty, item);
  }

  /** Digits that make a multiple of `divisor`; the empty text counts as 0. */
  multiple(divisor: number, remainder = 0): Regex {
    const form = { type: "modulo" as const, divisor, remainder };
    return this.#intern(`m${divisor},${remainder}`, form, remainder === 0);
  }

  /** The derivative: the expression of the rest after a byte. `none` when no match is left. */
  next(regex: Regex, byte: number): Regex {
    const known = regex.next[byte];
    if (known) return known.is_dead ? this.none : known;
    const found = regex.next[byte] = this.#derive(regex, byte);
    return found.is_dead ? this.none : found;
  }

  #derive({ form }: Regex, byte: number): Regex {
    this.budget?.spend();
    switch (form.type) {
      case "none":
      case "empty":
        return this.none;
      case "bytes":
        return hasByte(form.set, byte) ? this.empty : this.none;
      case "concat": {
        const first = this.#pair(this.next(form.head, byte), form.tail);
        return form.head.is_nullable ? this.either(first, this.next(form.tail, byte)) : first;
      }
      case "either":
        return this.either(...form.items.map((item) => this.next(item, byte)));
      case "both":
        return this.both(...form.items.map((item) => this.next(item, byte)));
      case "not":
        return this.not(this.next(form.item, byte));
      case "repeat": {
        const rest = this.repeat(form.item, Math.max(form.min - 1, 0), form.max - 1);
        return this.#pair(this.next(form.item, byte), rest);
      }
      case "modulo": {
        if (!hasByte(DIGITS, byte)) return this.none;
        return this.multiple(form.divisor, (10 * form.remainder + byte - 0x30) % form.divisor);
      }
    }
  }

  /**
   * Visits all states and marks those from which no match is left.
   *
   * @returns The expression, or `none` when it matches nothing. @throws The budget's error for too many states.
   */
  explore(root: Regex): Regex {
    if (this.#explored.has(root)) return root.is_dead ? this.none : root;
    const bytes = representatives(this.#sets(root));
    const sources = new Map<Regex, Regex[]>([[root, []]]), queue = [root];
    for (const state of queue) {
      this.budget?.spendState();
      for (const byte of bytes) {
        const next = this.next(state, byte);
        if (next === this.none) continue;
        const from = sources.get(next);
        if (from) from.push(state);
        else {
          sources.set(next, [state]);
          queue.push(next);
        }
      }
    }
    const live = new Set(queue.filter((state) => state.is_nullable));
    for (const state of live) for (const from of sources.get(state)!) live.add(from);
    for (const state of queue) state.is_dead = !live.has(state);
    this.#explored.add(root);
    return root.is_dead ? this.none : root;
  }

  /** The sets of bytes that the states of an expression are made of. */
  #sets(root: Regex): ByteSet[] {
    const sets = new Map<string, ByteSet>(), seen = new Set([root]);
    const addSet = (set: ByteSet) => sets.set(set.join(), set);
    for (const { form } of seen) {
      if (form.type === "bytes") addSet(form.set);
      else if (form.type === "modulo") SINGLE_DIGITS.forEach(addSet);
      else if (form.type === "concat") seen.add(form.head).add(form.tail);
      else if (form.type === "either" || form.type === "both") form.items.forEach((item) => seen.add(item));
      else if (form.type === "not" || form.type === "repeat") seen.add(form.item);
    }
    return [...sets.values()];
  }

  /**
   * An expression that equals this one for texts of up to `length` repetitions: numbers of repetitions that so short a
   * text cannot reach become one.
   */
  shorten(regex: Regex, length: number): Regex {
    const { form } = regex;
    if (form.type === "concat") {
      const head = this.shorten(form.head, length), tail = this.shorten(form.tail, length);
      return head === form.head && tail === form.tail ? regex : this.#pair(head, tail);
    }
    if (form.type !== "repeat") return regex;
    const min = Math.min(form.min, length + 1), max = form.max > length ? Infinity : form.max;
    assert(min <= max, "a repetition's bounds keep their order");
    return this.repeat(form.item, min, max);
  }

  #intern(key: string, form: Form, is_nullable: boolean): Regex {
    let regex = this.#known.get(key);
    if (!regex) {
      this.budget?.spend();
      regex = { id: this.#known.size, form, is_nullable, next: [], is_dead: false };
      this.#known.set(key, regex);
    }
    return regex;
  }
}
