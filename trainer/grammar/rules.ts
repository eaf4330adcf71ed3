/** A schema's nodes as rules that are expanded while a text grows. */

import { separator } from "./json_text.ts";
import type { Regex, RegexArena } from "./regex.ts";
import { type Alternative, alternativeHeight, type SchemaNode } from "./schema_node.ts";

export type GrammarSymbol = Regex | Rule;

/** One way to go on: these symbols in order. */
export interface RuleChoice {
  symbols: readonly GrammarSymbol[];
  /** Further levels of containers that it needs at least. */
  height: number;
  /** Whether its symbols are inside a container that it begins. */
  opens: boolean;
}

/** A rule. Its choices are found when they are first needed. */
export class Rule {
  #choices: readonly RuleChoice[] | null = null;

  constructor(readonly id: number, private readonly find: () => RuleChoice[]) {}

  get choices(): readonly RuleChoice[] {
    return this.#choices ??= this.find();
  }
}

type ArrayShape = Extract<Alternative, { type: "array" }>;
type SubsetShape = Extract<Alternative, { type: "subset" }>;
type ObjectShape = Extract<Alternative, { type: "object" }>;

/** Where an object is. */
interface ObjectState {
  /** The next declared property. */
  field: number;
  /** Properties so far that count towards the minimum, no further than it. */
  low: number;
  /** All properties so far, as far as there is a maximum; else 1 for any number. */
  high: number;
  /** Whether an undeclared one is among them: further ones may repeat its name. */
  has_other: boolean;
}

/** Makes the rules of one schema. */
export class RuleTable {
  readonly #values = new Map<SchemaNode, Rule>();
  readonly #parts = new Map<object, Map<string, Rule>>();
  readonly #counts = new Map<ObjectShape, { needed: readonly number[]; usable: readonly number[] }>();
  #count = 0;

  constructor(private readonly arena: RegexArena) {}

  /** A value of a node. */
  value(node: SchemaNode): Rule {
    let rule = this.#values.get(node);
    if (!rule) {
      rule = this.#rule(() => node.alternatives.map((alternative) => this.#begin(alternative)));
      this.#values.set(node, rule);
    }
    return rule;
  }

  #rule(find: () => RuleChoice[]): Rule {
    return new Rule(this.#count++, find);
  }

  /** The rule of a state of a container. */
  #part(shape: object, key: string, find: () => RuleChoice[]): Rule {
    let states = this.#parts.get(shape);
    if (!states) this.#parts.set(shape, states = new Map());
    let rule = states.get(key);
    if (!rule) states.set(key, rule = this.#rule(find));
    return rule;
  }

  #begin(alternative: Alternative): RuleChoice {
    const { arena } = this, height = alternativeHeight(alternative);
    const open = (bracket: string, rest: Rule) => ({
      symbols: [arena.text(bracket), rest],
      height,
      opens: true,
    });
    switch (alternative.type) {
      case "text":
        return { symbols: [alternative.text], height, opens: false };
      case "array":
        return open("[", this.#items(alternative, 0));
      case "subset":
        return open("[", this.#subset(alternative, { from: 0, count: 0 }));
      case "object":
        return open("{", this.#properties(alternative, { field: 0, low: 0, high: 0, has_other: false }));
    }
  }

  /** A symbol after a comma, unless it is the first. */
  #listed(symbol: Regex, is_first: boolean): Regex {
    return is_first ? symbol : this.arena.concat(separator(this.arena, ","), symbol);
  }

  #close(bracket: string): RuleChoice {
    return { symbols: [this.arena.text(bracket)], height: 0, opens: false };
  }

  #items(shape: ArrayShape, count: number): Rule {
    const { prefix, items, min, max } = shape;
    // Beyond all bounds one state stands for every number.
    const last = Math.max(prefix.length, min, 1);
    const at = max === Infinity ? Math.min(count, last) : count;
    return this.#part(shape, String(at), () => {
      const choices: RuleChoice[] = at >= min ? [this.#close("]")] : [];
      const item = prefix[at] ?? items;
      if (at < max && item && item.height < Infinity) {
        const comma = at === 0 ? [] : [separator(this.arena, ",")];
        const symbols = [...comma, this.value(item), this.#items(shape, at + 1)];
        choices.push({ symbols, height: item.height, opens: false });
      }
      return choices;
    });
  }

  #subset(shape: SubsetShape, { from, count }: { from: number; count: number }): Rule {
    const { texts, min, max } = shape;
    return this.#part(shape, `${from},${count}`, () => {
      const choices: RuleChoice[] = count >= min ? [this.#close("]")] : [];
      for (let i = from; i < texts.length && count < max; i++) {
        if (count + texts.length - i < min) break;
        const rest = this.#subset(shape, { from: i + 1, count: count + 1 });
        choices.push({ symbols: [this.#listed(texts[i]!, count === 0), rest], height: 0, opens: false });
      }
      return choices;
    });
  }

  #properties(shape: ObjectShape, state: ObjectState): Rule {
    const { field, low, high, has_other } = state;
    return this.#part(
      shape,
      `${field},${low},${high},${has_other}`,
      () => this.#propertyChoices(shape, state),
    );
  }

  /** How many fields from each on are required, and how many have values. */
  #remaining(shape: ObjectShape): { needed: readonly number[]; usable: readonly number[] } {
    let counts = this.#counts.get(shape);
    if (!counts) {
      const { fields } = shape, needed = [0], usable = [0];
      for (const { is_required, value } of fields.toReversed()) {
        needed.unshift(needed[0]! + (is_required ? 1 : 0));
        usable.unshift(usable[0]! + (value.height < Infinity ? 1 : 0));
      }
      this.#counts.set(shape, counts = { needed, usable });
    }
    return counts;
  }

  #propertyChoices(shape: ObjectShape, state: ObjectState): RuleChoice[] {
    const { fields, others, min, max } = shape, { field, low, high, has_other } = state;
    const choices: RuleChoice[] = [];
    const usable = others.filter((other) => other.value.height < Infinity);
    const { needed, usable: left } = this.#remaining(shape);
    /** How much the minimum can still grow from a field on. */
    const possible = (from: number) => left[from]! + (usable.length > 0 && !has_other ? 1 : 0);
    const counted = (more: number) => ({
      low: Math.min(low + more, min),
      high: max === Infinity ? 1 : high + 1,
    });
    const add = (key: Regex, value: SchemaNode, next: ObjectState) => {
      const name = this.arena.concat(this.#listed(key, high === 0), separator(this.arena, ":"));
      const symbols = [name, this.value(value), this.#properties(shape, next)];
      choices.push({ symbols, height: value.height, opens: false });
    };
    const used = max === Infinity ? 0 : high;
    for (let i = field; i < fields.length; i++) {
      const { key, value, is_required } = fields[i]!;
      const has_room = used + 1 + needed[i + 1]! <= max && low + 1 + possible(i + 1) >= min;
      if (value.height < Infinity && has_room) add(key, value, { ...counted(1), field: i + 1, has_other });
      if (is_required) return choices;
    }
    if (low >= min) choices.push(this.#close("}"));
    const grows = has_other ? 0 : 1;
    if (used < max && low + grows >= min) {
      for (const { key, value } of usable) {
        add(key, value, { ...counted(grows), field: fields.length, has_other: true });
      }
    }
    return choices;
  }
}
