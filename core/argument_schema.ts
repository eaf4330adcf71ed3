/**
 * JSON Schemas of tools' arguments, from others: which ones are accepted, and a copy of only those keywords that are
 * checked.
 */

import { isJsonObject, isTooDeep, MAX_JSON_DEPTH } from "./json.ts";
import { patternRefusal } from "./safe_pattern.ts";

/** The most subschemas of a schema. */
export const MAX_SUBSCHEMAS = 5000;

/** The most characters of a schema as JSON. */
export const MAX_SCHEMA_CHARS = 500_000;

/** The most subschemas that apply to one value one inside the other, through `$ref`, `allOf` and the like. */
export const MAX_SCHEMA_CHAIN = 64;

/** A schema as a validator reads it. */
export type Subschema = boolean | Record<string, unknown>;

/** A schema that was accepted. */
export interface ArgumentSchema {
  root: Subschema;
  /** The target of every `$ref`, by its text. */
  targets: Record<string, Subschema>;
  /** Those of all objects in `root`, for a caller that adds to them. */
  subschemas: readonly Record<string, unknown>[];
  dialect: "7" | "2019-09" | "2020-12";
}

/** What becomes of keywords that are valid and cannot be checked here. */
export type Unusable = "refuse" | "leave_out";

/** A schema that is refused; the message says why, and where. */
export class SchemaRefusal extends Error {}

const TYPES = ["string", "number", "integer", "boolean", "null", "array", "object"];

const isText = (value: unknown) => typeof value === "string";
const isTexts = (value: unknown) => Array.isArray(value) && value.every(isText);
const isBound = (value: unknown) => typeof value === "number" && Number.isFinite(value);
const isCount = (value: unknown) => Number.isInteger(value) && (value as number) >= 0;
const isType = (value: unknown) => TYPES.includes(value as string);

/** Keywords with a value, and the form that it must have. */
const VALUES: Readonly<Record<string, (value: unknown) => boolean>> = {
  type: (value) => Array.isArray(value) ? value.length > 0 && value.every(isType) : isType(value),
  const: () => true,
  enum: Array.isArray,
  required: isTexts,
  dependentRequired: (value) => isJsonObject(value) && Object.values(value).every(isTexts),
  minimum: isBound,
  maximum: isBound,
  exclusiveMinimum: isBound,
  exclusiveMaximum: isBound,
  multipleOf: (value) => isBound(value) && (value as number) > 0,
  ...Object.fromEntries(
    ["Length", "Items", "Properties", "Contains"].flatMap((what) => [`min${what}`, `max${what}`])
      .map((keyword) => [keyword, isCount]),
  ),
  uniqueItems: (value) => typeof value === "boolean",
  pattern: isText,
};

/** Keywords with one schema; those of `SAME_VALUE` apply to the value itself, others to its parts. */
const SCHEMA = [
  ...["not", "if", "then", "else", "additionalProperties", "unevaluatedProperties", "propertyNames"],
  ...["items", "contains", "unevaluatedItems", "additionalItems"],
];
const SCHEMA_LISTS = ["allOf", "anyOf", "oneOf", "prefixItems"];
const SCHEMA_MAPS = ["properties", "patternProperties", "dependentSchemas", "$defs", "definitions"];
const SAME_VALUE = ["not", "if", "then", "else", "allOf", "anyOf", "oneOf", "dependentSchemas"];

/** In place of a pattern of names that is left out: which names are additional is not known without it. */
const ANY_NAME = "";

/** Keywords that change the meaning of others and are not supported. */
const UNSUPPORTED = ["$dynamicRef", "$recursiveRef", "$dynamicAnchor", "$anchor", "dependencies"];

/**
 * Checks a schema and copies its keywords. Annotations, unknown keywords and `format` are left out: they accept
 * everything. A `$ref` must name a place in the same schema.
 *
 * @param unusable `leave_out` for the schema of a server, which checks arguments itself: what cannot be checked here
 * accepts everything, instead of being refused. Such are patterns that could take too long, and keywords that are not
 * supported. A list of `items` is then allowed in every draft.
 * @throws {SchemaRefusal} For a schema that is malformed, too large, or could keep a validator busy for ever.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 *
 * const { root } = argumentSchema({ type: "object", title: "Point", properties: { x: { type: "number" } } });
 * assert.equal(JSON.stringify(root), '{"type":"object","properties":{"x":{"type":"number"}}}');
 * assert.throws(() => argumentSchema({ $ref: "#" }), /refers to itself/);
 * ```
 */
export function argumentSchema(schema: unknown, unusable: Unusable = "refuse"): ArgumentSchema {
  if (isTooDeep(schema)) throw new SchemaRefusal(`it is nested more than ${MAX_JSON_DEPTH} levels deep`);
  if (!isJsonObject(schema)) throw new SchemaRefusal("it is no object");
  if (JSON.stringify(schema).length > MAX_SCHEMA_CHARS) {
    throw new SchemaRefusal(`it has more than ${MAX_SCHEMA_CHARS} characters`);
  }
  const copier = new SchemaCopier(dialectOf(schema), unusable);
  const root = copier.copy(schema, "");
  return { root, targets: copier.resolve(), subschemas: copier.subschemas, dialect: copier.dialect };
}

function dialectOf({ $schema }: Record<string, unknown>): ArgumentSchema["dialect"] {
  if (typeof $schema !== "string") return "2020-12";
  if (/draft-0[467]/.test($schema)) return "7";
  return $schema.includes("2019-09") ? "2019-09" : "2020-12";
}

class SchemaCopier {
  readonly subschemas: Record<string, unknown>[] = [];
  readonly #at = new Map<string, Subschema>();
  readonly #references: { place: string; reference: string; from: Record<string, unknown> }[] = [];
  /** For each subschema, those that apply to the same value, with the keyword. */
  readonly #same = new Map<Subschema, Subschema[]>();

  constructor(readonly dialect: ArgumentSchema["dialect"], readonly unusable: Unusable) {}

  /** @param place The JSON Pointer of the schema. */
  copy(schema: unknown, place: string): Subschema {
    if (typeof schema === "boolean") {
      this.#at.set(place, schema);
      return schema;
    }
    if (!isJsonObject(schema)) throw refusal(place, "is no schema");
    if (this.subschemas.length >= MAX_SUBSCHEMAS) {
      throw new SchemaRefusal(`it has more than ${MAX_SUBSCHEMAS} subschemas`);
    }
    const copied: Record<string, unknown> = Object.create(null);
    this.subschemas.push(copied);
    this.#at.set(place, copied);
    this.#same.set(copied, []);
    for (const [keyword, value] of Object.entries(schema)) this.#keyword(copied, keyword, { value, place });
    return copied;
  }

  #keyword(
    to: Record<string, unknown>,
    keyword: string,
    { value, place }: { value: unknown; place: string },
  ) {
    const here = `${place}/${escaped(keyword)}`;
    if (UNSUPPORTED.includes(keyword) || (keyword === "$id" && place !== "")) {
      if (this.unusable === "refuse") throw refusal(here, "is not supported");
    } else if (keyword === "$ref") {
      if (typeof value !== "string") throw refusal(here, "is no text");
      this.#references.push({ place: here, reference: value, from: to });
      to.$ref = value;
    } else if (Object.hasOwn(VALUES, keyword)) {
      if (!VALUES[keyword]!(value)) throw refusal(here, "has no valid value");
      if (keyword !== "pattern" || this.#isUsable(value as string, here)) to[keyword] = value;
    } else if (SCHEMA_LISTS.includes(keyword) || (keyword === "items" && Array.isArray(value))) {
      if (!Array.isArray(value)) throw refusal(here, "is no list");
      if (keyword === "items" && this.dialect === "2020-12" && this.unusable === "refuse") {
        throw refusal(here, "is a list: use prefixItems");
      }
      to[keyword] = value.map((item, i) => this.#part(to, keyword, { value: item, place: `${here}/${i}` }));
    } else if (SCHEMA_MAPS.includes(keyword)) {
      if (!isJsonObject(value)) throw refusal(here, "is no object");
      const map: Record<string, Subschema> = Object.create(null);
      for (const [name, item] of Object.entries(value)) {
        const at = `${here}/${escaped(name)}`;
        const part = this.#part(to, keyword, { value: item, place: at });
        if (keyword !== "patternProperties" || this.#isUsable(name, at)) map[name] = part;
        else map[ANY_NAME] ??= true;
      }
      to[keyword] = map;
    } else if (SCHEMA.includes(keyword)) {
      to[keyword] = this.#part(to, keyword, { value, place: here });
    }
  }

  /** Whether a pattern can be checked. @throws {SchemaRefusal} When it cannot, and is not to be left out. */
  #isUsable(pattern: string, place: string): boolean {
    const reason = patternRefusal(pattern);
    if (reason === null) return true;
    if (this.unusable === "leave_out") return false;
    throw refusal(place, `has a pattern that cannot be used: ${reason}`);
  }

  #part(
    of: Record<string, unknown>,
    keyword: string,
    { value, place }: { value: unknown; place: string },
  ): Subschema {
    const part = this.copy(value, place);
    if (SAME_VALUE.includes(keyword)) this.#same.get(of)!.push(part);
    return part;
  }

  /** Finds the target of each `$ref`. */
  resolve(): Record<string, Subschema> {
    const targets: Record<string, Subschema> = Object.create(null);
    for (const { place, reference, from } of this.#references) {
      const target = this.#at.get(pointerOf(reference) ?? "?");
      if (target === undefined) {
        throw refusal(place, `names no place in this schema: ${JSON.stringify(reference)}`);
      }
      targets[reference] = target;
      this.#same.get(from)!.push(target);
    }
    const chains = new Map<Subschema, number>();
    for (const schema of this.subschemas) this.#chain(schema, { chains, above: [] });
    return targets;
  }

  /** The longest chain of subschemas that apply to one value, from this one. */
  #chain(
    schema: Subschema,
    { chains, above }: { chains: Map<Subschema, number>; above: readonly Subschema[] },
  ): number {
    const known = chains.get(schema);
    if (known !== undefined) return known;
    if (above.includes(schema)) {
      throw new SchemaRefusal("a $ref in it refers to itself, without a step into the value");
    }
    const parts = this.#same.get(schema) ?? [];
    const longest = above.length > MAX_SCHEMA_CHAIN
      ? Infinity
      : 1 + Math.max(0, ...parts.map((part) => this.#chain(part, { chains, above: [...above, schema] })));
    if (longest > MAX_SCHEMA_CHAIN) {
      throw new SchemaRefusal(
        `more than ${MAX_SCHEMA_CHAIN} subschemas in it apply to one value, one inside the other`,
      );
    }
    chains.set(schema, longest);
    return longest;
  }
}

function refusal(place: string, reason: string): SchemaRefusal {
  return new SchemaRefusal(`${place === "" ? "it" : `its ${place}`} ${reason}`);
}

const escaped = (name: string) => name.replaceAll("~", "~0").replaceAll("/", "~1");

/** The JSON Pointer of a reference to the same document; null for others. */
function pointerOf(reference: string): string | null {
  if (!reference.startsWith("#")) return null;
  try {
    return decodeURIComponent(reference.slice(1));
  } catch {
    return null;
  }
}
