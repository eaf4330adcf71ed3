/**
 * Turns a schema's places into nodes: follows references, merges what must hold together (allOf, siblings) and
 * multiplies out what is alternative (anyOf, oneOf, dependencies).
 */

import { containerAlternatives } from "./containers.ts";
import { Facts, names, type TypeName, TYPES } from "./facts.ts";
import { type CompileBudget, MAX_ALTERNATIVES, MAX_NODES, schemaError } from "./limits.ts";
import type { Regex, RegexArena } from "./regex.ts";
import { textAlternative } from "./scalars.ts";
import type { SchemaDocument, SchemaObject, Subschema } from "./schema_document.ts";
import { writtenValue } from "./json_text.ts";
import type { NodeKind, NodeSource, Obligation, SchemaNode } from "./schema_node.ts";

/** One way to satisfy a choice. */
interface Option {
  place?: Subschema;
  require?: readonly string[];
  forbid?: string;
}

interface Choice {
  place: Subschema;
  keyword: string;
  options: readonly Option[];
  /** Places whose evaluation led here, which an option must not lead back to. */
  chain: readonly Subschema[];
}

/** A conjunction while it is expanded. */
interface State {
  facts: Facts;
  visited: ReadonlySet<Subschema>;
  choices: readonly Choice[];
  /** The decisions for oneOf: the alternatives that must not hold. */
  others: readonly { choice: Choice; taken: Subschema; other: Subschema }[];
  /** Places that must not hold. */
  denied: readonly Subschema[];
  is_empty: boolean;
}

export class Resolver implements NodeSource {
  readonly nodes: SchemaNode[] = [];
  readonly obligations: Obligation[] = [];
  readonly #known = new Map<string, SchemaNode>();

  constructor(
    readonly document: SchemaDocument,
    readonly arena: RegexArena,
    readonly budget: CompileBudget,
  ) {}

  /** The node of a conjunction; its alternatives are found by {@link resolveAll}. */
  node(
    places: readonly Subschema[],
    { is_check = false, is_key = false, closed = null }: NodeKind = {},
  ): SchemaNode {
    const sorted = [...new Set(places)].sort((a, b) => a.id - b.id);
    const key = `${is_check}${is_key}${JSON.stringify(closed)}${sorted.map((place) => place.id)}`;
    let node = this.#known.get(key);
    if (!node) {
      if (this.nodes.length >= MAX_NODES) {
        const reason = `its subschemas combine to more than ${MAX_NODES}: simplify it`;
        throw schemaError(sorted[0]?.pointer ?? "", null, reason);
      }
      node = {
        ...{ places: sorted, is_check, is_key, closed },
        ...{ is_resolved: false, values: null, alternatives: [], height: Infinity },
      };
      this.#known.set(key, node);
      this.nodes.push(node);
    }
    return node;
  }

  /** Finds the alternatives of all nodes, and of those that they lead to. */
  resolveAll(): void {
    for (const node of this.nodes) this.resolve(node);
  }

  nothing(): SchemaNode {
    const none = { is_check: false, is_key: false, closed: null, is_resolved: true, values: null };
    return { ...none, places: [], alternatives: [], height: Infinity };
  }

  valueTexts(node: SchemaNode): Regex[] | null {
    this.resolve(node);
    return node.values && node.alternatives.length === 1
      ? node.values.map((value) => writtenValue(this.arena, value))
      : null;
  }

  resolve(node: SchemaNode): void {
    if (node.is_resolved) return;
    node.is_resolved = true;
    this.budget.pointer = node.places[0]?.pointer ?? "";
    const facts = new Facts();
    let state: State = { facts, visited: new Set(), choices: [], others: [], denied: [], is_empty: false };
    for (const place of node.places) state = this.#expand(state, place, []);
    for (const leaf of this.#leaves(state, node)) this.#finish(leaf, node);
  }

  /** Adds a place's keywords, and those of what it refers to. */
  #expand(state: State, place: Subschema, chain: readonly Subschema[]): State {
    this.budget.spend(1 + state.visited.size / 16);
    if (chain.includes(place)) {
      throw schemaError(place.pointer, null, "it refers to itself before any part of the value is given");
    }
    if (state.visited.has(place)) return state;
    const { schema } = place;
    const next: State = {
      ...state,
      facts: state.facts.clone(),
      visited: new Set([...state.visited, place]),
      is_empty: state.is_empty || schema === false,
    };
    if (typeof schema === "boolean") return next;
    next.facts.add(place, schema);
    return this.#combine(next, place, { schema, chain: [...chain, place] });
  }

  #combine(
    begun: State,
    place: Subschema,
    { schema, chain }: { schema: SchemaObject; chain: readonly Subschema[] },
  ): State {
    const { document } = this;
    let state = begun;
    for (const keyword of ["$dynamicRef", "$recursiveRef"]) {
      if (Object.hasOwn(schema, keyword)) {
        throw schemaError(place.pointer, keyword, `${keyword} is not supported`);
      }
    }
    if (Object.hasOwn(schema, "$ref")) {
      state = this.#expand(state, document.resolve(place, schema.$ref), chain);
    }
    for (const i of indices(place, schema, "allOf")) {
      state = this.#expand(state, document.child(place, "allOf", i), chain);
    }
    const choices: Choice[] = [];
    for (const keyword of ["anyOf", "oneOf"]) {
      if (!Object.hasOwn(schema, keyword)) continue;
      const options = indices(place, schema, keyword).map((i) => ({
        place: document.child(place, keyword, i),
      }));
      choices.push({ place, keyword, options, chain });
    }
    if (Object.hasOwn(schema, "if") && (Object.hasOwn(schema, "then") || Object.hasOwn(schema, "else"))) {
      throw schemaError(place.pointer, "if", "if, then and else are not supported: use anyOf");
    }
    for (const keyword of ["dependentRequired", "dependencies"]) {
      choices.push(...this.#dependencies(place, schema, { keyword, chain }));
    }
    state = { ...state, choices: [...state.choices, ...choices] };
    return Object.hasOwn(schema, "not") ? this.#deny(state, document.child(place, "not")) : state;
  }

  /** Keys with requirements: either the key is absent, or its requirements hold. */
  #dependencies(
    place: Subschema,
    schema: SchemaObject,
    { keyword, chain }: { keyword: string; chain: readonly Subschema[] },
  ): Choice[] {
    const table = schema[keyword] ?? {};
    if (typeof table !== "object") throw schemaError(place.pointer, keyword, "it must be an object");
    return Object.entries(table as SchemaObject).map(([key, value]) => {
      const present: Option = Array.isArray(value)
        ? { require: [key, ...names(place, table as SchemaObject, key)] }
        : { require: [key], place: this.document.child(place, keyword, key) };
      return { place, keyword, options: [{ forbid: key }, present], chain };
    });
  }

  /** `not`: of absent properties, types and values at once; else the place must be impossible anyway. */
  #deny(state: State, place: Subschema): State {
    const { schema } = place;
    if (typeof schema === "boolean") return schema ? { ...state, is_empty: true } : state;
    const facts = state.facts.clone(), keywords = Object.keys(schema).filter((key) => key !== "description");
    if (keywords.length === 0) return { ...state, is_empty: true };
    const is_only = (keyword: string) => keywords.length === 1 && keywords[0] === keyword;
    const required = names(place, schema, "required");
    const values = Array.isArray(schema.enum) ? schema.enum : [schema.const];
    if (is_only("required") && required.length === 1) {
      facts.forbidden = [...facts.forbidden, required[0]!];
      // Other values satisfy `required`, which asks nothing of them.
      facts.types = new Set([...facts.types].filter((type) => type === "object"));
    } else if (is_only("type") && typeof schema.type === "string" && schema.type !== "integer") {
      facts.types = new Set([...facts.types].filter((type) => type !== schema.type));
    } else if ((is_only("const") || is_only("enum")) && values.every(isScalar)) {
      facts.excluded = [...facts.excluded, ...values];
    } else return { ...state, denied: [...state.denied, place] };
    return { ...state, facts };
  }

  /** Every way to decide all choices. */
  #leaves(root: State, node: SchemaNode): State[] {
    const leaves: State[] = [], open = [root];
    for (let state = open.pop(); state; state = open.pop()) {
      if (state.is_empty || state.facts.types.size === 0 || state.facts.values?.length === 0) continue;
      const [choice, ...choices] = state.choices;
      if (!choice) {
        leaves.push(state);
        if (leaves.length > MAX_ALTERNATIVES) {
          const reason = `its alternatives combine to more than ${MAX_ALTERNATIVES}: simplify them`;
          throw schemaError(node.places[0]?.pointer ?? "", null, reason);
        }
        continue;
      }
      const is_exclusive = choice.keyword === "oneOf" && !node.is_check;
      const is_decided = choice.options.some(({ place }) => place && state!.visited.has(place));
      if (is_decided && !is_exclusive) open.push({ ...state, choices });
      else {
        const decided = choice.options.map((option) =>
          this.#decide({ ...state!, choices }, { choice, option, is_exclusive })
        );
        open.push(...decided.reverse());
      }
    }
    return leaves;
  }

  #decide(
    state: State,
    { choice, option, is_exclusive }: { choice: Choice; option: Option; is_exclusive: boolean },
  ): State {
    const facts = state.facts.clone();
    facts.require(option.require ?? []);
    if (option.forbid !== undefined) facts.forbidden = [...facts.forbidden, option.forbid];
    const next = { ...state, facts };
    const { place: taken } = option;
    if (!taken) return next;
    if (is_exclusive) {
      const others = choice.options.flatMap(({ place }) => place && place !== taken ? [place] : []);
      next.others = [...next.others, ...others.map((other) => ({ choice, taken, other }))];
    }
    return this.#expand(next, taken, choice.chain);
  }

  #finish({ facts, visited, others, denied }: State, node: SchemaNode): void {
    const places = [...visited];
    const allowed = TYPES.filter((type) => facts.types.has(type) && (!node.is_key || type === "string"));
    const found = node.alternatives.length;
    const closed = new Set<string>();
    const context = { resolver: this, node, facts };
    const text = textAlternative(context, new Set<TypeName>(allowed));
    if (text) node.alternatives.push({ type: "text", text });
    if (facts.values === null) {
      for (const alternative of containerAlternatives(context, { allowed, closed })) {
        node.alternatives.push(alternative);
      }
    }
    if (node.is_check || node.alternatives.length === found) return;
    const only = facts.values === null && allowed.includes("object") && closed.size > 0 ? [...closed] : null;
    for (const { choice, taken, other } of others) {
      const reason =
        `the alternatives ${taken.pointer} and ${other.pointer} can hold at once: use anyOf, or make ` +
        "them exclude each other";
      this.#oblige([...places, other], only, schemaError(choice.place.pointer, choice.keyword, reason));
    }
    for (const place of denied) {
      const reason = "only a type, values, or one required property can be excluded";
      this.#oblige([...places, place], only, schemaError(place.pointer, null, `not: ${reason}`));
    }
  }

  #oblige(places: readonly Subschema[], closed: readonly string[] | null, error: Error): void {
    this.obligations.push({ node: this.node(places, { is_check: true, closed }), error });
  }
}

const isScalar = (value: unknown) => value === null || typeof value !== "object";

/** The indices of a keyword's list of schemas. */
function indices(place: Subschema, schema: SchemaObject, keyword: string): number[] {
  if (!Object.hasOwn(schema, keyword)) return [];
  const list = schema[keyword];
  if (Array.isArray(list) && list.length > 0) return list.map((_, i) => i);
  throw schemaError(place.pointer, keyword, "it must be a list of schemas");
}
