/** The arrays and objects of a node. */

import type { TypeName } from "./facts.ts";
import { anyWritten, quoted } from "./json_text.ts";
import { schemaError } from "./limits.ts";
import { patternText, UnsupportedPattern } from "./pattern.ts";
import type { Regex } from "./regex.ts";
import { matches } from "./scalars.ts";
import type { SchemaObject, Subschema } from "./schema_document.ts";
import type { Alternative, Field, NodeContext, OtherKeys, SchemaNode } from "./schema_node.ts";

/** Sets of undeclared names that patterns tell apart. */
const MAX_KEY_CLASSES = 32;

/**
 * The alternatives for arrays and objects.
 *
 * @param closed Receives the names of an object that has no others.
 */
export function containerAlternatives(
  context: NodeContext,
  { allowed, closed }: { allowed: readonly TypeName[]; closed: Set<string> },
): Alternative[] {
  const found: Alternative[] = [];
  if (allowed.includes("array")) found.push(arrayAlternative(context));
  if (allowed.includes("object")) found.push(objectAlternative(context, closed));
  return found;
}

const schemaOf = (place: Subschema) => place.schema as SchemaObject;
const has = (place: Subschema, keyword: string) => Object.hasOwn(schemaOf(place), keyword);

/** The node of a part of a value. */
function partOf({ resolver, node }: NodeContext, places: readonly Subschema[]): SchemaNode {
  return resolver.node(places, { is_check: node.is_check });
}

function arrayAlternative(context: NodeContext): Alternative {
  const { facts, node } = context, { array_places, items } = facts;
  if (!node.is_check) facts.expectEnforced("array");
  const lists = array_places.map((place) => itemPlaces(context, place));
  const length = Math.max(0, ...lists.map(({ prefix }) => prefix.length));
  const at = (index: number) =>
    partOf(context, lists.flatMap(({ prefix, rest }) => prefix[index] ?? rest ?? []));
  const prefix = Array.from({ length: Math.min(length, items.max) }, (_, i) => at(i));
  const is_unique = facts.unique !== null && items.max > 1 && !node.is_check;
  if (is_unique) return uniqueItems(context, { prefix, rest: at(length) });
  return { type: "array", prefix, items: items.max > length ? at(length) : null, ...items };
}

/** The subschemas of a place for items by index, and for the rest. */
function itemPlaces(
  { resolver: { document } }: NodeContext,
  place: Subschema,
): { prefix: Subschema[]; rest: Subschema | null } {
  const { items, prefixItems } = schemaOf(place);
  const keyword = Array.isArray(prefixItems) ? "prefixItems" : "items";
  const listed = Array.isArray(prefixItems) ? prefixItems : Array.isArray(items) ? items : [];
  const prefix = listed.map((_, i) => document.child(place, keyword, i));
  // Up to draft 7, items may be a list, and additionalItems is about the rest.
  const rest = Array.isArray(items) ? "additionalItems" : "items";
  return { prefix, rest: has(place, rest) ? document.child(place, rest) : null };
}

/** Unique items are enforced where they come from a list of values: they are then given in its order. */
function uniqueItems(context: NodeContext, items: { prefix: SchemaNode[]; rest: SchemaNode }): Alternative {
  const { resolver, facts } = context, { prefix, rest } = items;
  const refuse = () =>
    schemaError(facts.unique!.pointer, "uniqueItems", "it is enforced only for items with enum or const");
  if (prefix.length > 0) throw refuse();
  const texts = resolver.valueTexts(rest);
  if (!texts) throw refuse();
  const { min, max } = facts.items;
  return { type: "subset", texts, min, max };
}

function objectAlternative(context: NodeContext, closed: Set<string>): Alternative {
  const { facts, node, resolver: { arena } } = context, { object_places } = facts;
  if (!node.is_check) facts.expectEnforced("object");
  const declared = object_places.flatMap((place) =>
    Object.keys((schemaOf(place).properties ?? {}) as object)
  );
  const ordered = [...new Set([...declared, ...facts.required])];
  const key_text = keyText(context), patterns = keyPatterns(context);
  const fields = ordered.map((name): Field => {
    const text = JSON.stringify(name);
    const may_be = !facts.forbidden.includes(name) && (node.closed?.includes(name) ?? true) &&
      (!key_text || matches(arena, key_text, text));
    const places = may_be ? valuePlaces(context, name, patterns) : null;
    const value = places ? partOf(context, places) : context.resolver.nothing();
    return { key: arena.text(text), value, is_required: facts.required.includes(name) };
  });
  const has_rules = object_places.some((place) =>
    ["additionalProperties", "patternProperties", "unevaluatedProperties"].some((keyword) =>
      has(place, keyword)
    )
  );
  // Declared names mean that no others are wanted, unless the schema speaks of others or needs them.
  const is_closed = declared.length > 0 && !has_rules && !node.is_check &&
    facts.properties.min <= ordered.length;
  const others = is_closed || node.closed ? [] : otherKeys(context, { ordered, key_text, patterns });
  if (others.length === 0) ordered.forEach((name) => closed.add(name));
  return { type: "object", fields, others, ...facts.properties };
}

/** Names that all `propertyNames` allow, in quotes; null: all. */
function keyText(context: NodeContext): Regex | null {
  const { resolver, facts } = context;
  const places = facts.object_places.filter((place) => has(place, "propertyNames"))
    .map((place) => resolver.document.child(place, "propertyNames"));
  if (places.length === 0) return null;
  const node = resolver.node(places, { is_key: true });
  resolver.resolve(node);
  return resolver.arena.either(
    ...node.alternatives.flatMap((found) => found.type === "text" ? [found.text] : []),
  );
}

interface KeyPattern {
  owner: Subschema;
  text: Regex;
  value: Subschema;
}

/** The entries of `patternProperties` of all places. */
function keyPatterns({ resolver, facts }: NodeContext): KeyPattern[] {
  const { document, arena } = resolver;
  return facts.object_places.flatMap((owner) => {
    const table = (schemaOf(owner).patternProperties ?? {}) as object;
    return Object.keys(table).map((pattern) => {
      try {
        const text = quoted(arena, patternText(arena, pattern));
        return { owner, text, value: document.child(owner, "patternProperties", pattern) };
      } catch (error) {
        if (!(error instanceof UnsupportedPattern)) throw error;
        throw schemaError(owner.pointer, "patternProperties", `${JSON.stringify(pattern)}: ${error.message}`);
      }
    });
  });
}

/** The subschemas that the value of a declared name must satisfy. */
function valuePlaces(context: NodeContext, name: string, patterns: readonly KeyPattern[]): Subschema[] {
  const { facts, resolver: { document, arena } } = context, text = JSON.stringify(name);
  const matching = patterns.filter((pattern) => matches(arena, pattern.text, text));
  return facts.object_places.flatMap((place) => {
    arena.budget?.spend(1 + patterns.length);
    const found = matching.filter(({ owner }) => owner === place).map(({ value }) => value);
    if (Object.hasOwn((schemaOf(place).properties ?? {}) as object, name)) {
      found.push(document.child(place, "properties", name));
    }
    return found.length > 0 ? found : additional(context, place);
  });
}

/** The subschema of a place for other names. */
function additional({ resolver: { document }, facts }: NodeContext, place: Subschema): Subschema[] {
  if (has(place, "additionalProperties")) return [document.child(place, "additionalProperties")];
  if (!has(place, "unevaluatedProperties")) return [];
  const is_alone = ["$ref", "allOf", "anyOf", "oneOf", "not", "if", "dependentSchemas", "dependencies"]
    .every((keyword) => !has(place, keyword));
  if (is_alone) return [document.child(place, "unevaluatedProperties")];
  facts.refuse("object", place, {
    keyword: "unevaluatedProperties",
    reason: "it cannot be enforced beside $ref, allOf, anyOf, oneOf, not, if and dependencies",
  });
  facts.expectEnforced("object");
  return [];
}

/** Undeclared names, by the patterns that they match. */
function otherKeys(
  context: NodeContext,
  { ordered, key_text, patterns }: {
    ordered: readonly string[];
    key_text: Regex | null;
    patterns: readonly KeyPattern[];
  },
): OtherKeys[] {
  const { facts, resolver: { arena } } = context;
  const any = quoted(arena, arena.repeat(anyWritten(arena), 0, Infinity));
  const declared = arena.texts([...ordered, ...facts.forbidden].map((name) => JSON.stringify(name)));
  const rest = declared === arena.none && !key_text
    ? any
    : arena.explore(arena.both(any, arena.not(declared), ...(key_text ? [key_text] : [])));
  let classes: { key: Regex; matching: KeyPattern[] }[] = [{ key: rest, matching: [] }];
  for (const pattern of patterns) {
    classes = classes.flatMap(({ key, matching }) => [
      { key: arena.explore(arena.both(key, pattern.text)), matching: [...matching, pattern] },
      { key: arena.explore(arena.both(key, arena.not(pattern.text))), matching },
    ]).filter(({ key }) => key !== arena.none);
    if (classes.length > MAX_KEY_CLASSES) {
      const reason = "the patterns overlap in too many ways";
      throw schemaError(pattern.owner.pointer, "patternProperties", reason);
    }
  }
  return classes.filter(({ key }) => key !== arena.none).map(({ key, matching }) => {
    const places = facts.object_places.flatMap((place) => {
      const own = matching.filter(({ owner }) => owner === place).map(({ value }) => value);
      return own.length > 0 ? own : additional(context, place);
    });
    return { key, value: partOf(context, places) };
  });
}
