/** A JSON schema's text with its places and references. */

import { isJsonObject } from "../../core/json.ts";
import { MAX_SCHEMA_DEPTH, MAX_SCHEMA_LENGTH, schemaError } from "./limits.ts";

export type SchemaObject = Readonly<Record<string, unknown>>;

/** A subschema and where it is. Equal places are one object. */
export interface Subschema {
  readonly id: number;
  /** JSON pointer in the document. */
  readonly pointer: string;
  readonly schema: SchemaObject | boolean;
}

const escapeKey = (key: string) => key.replaceAll("~", "~0").replaceAll("/", "~1");

export class SchemaDocument {
  readonly root: Subschema;
  readonly #value: unknown;
  readonly #places = new Map<string, Subschema>();
  /** Pointers of the schemas that carry a name of their own: `$id`, `$anchor`. */
  readonly #names = new Map<string, string>();

  /** @throws {ServiceError} `config_invalid` when the text is too long, no JSON, too deep or no schema. */
  constructor(text: string) {
    if (text.length > MAX_SCHEMA_LENGTH) {
      throw schemaError("", null, `${text.length} characters are above ${MAX_SCHEMA_LENGTH}`);
    }
    try {
      this.#value = JSON.parse(text);
    } catch (error) {
      throw schemaError("", null, `it is not JSON: ${(error as Error).message}`);
    }
    this.#scan();
    this.root = this.at("", "");
  }

  /** The subschema at a pointer; `keyword` is the one that leads there. */
  at(pointer: string, keyword: string): Subschema {
    let place = this.#places.get(pointer);
    if (!place) {
      const schema = this.#find(pointer);
      if (typeof schema !== "boolean" && !isJsonObject(schema)) {
        const reason = schema === undefined ? `${keyword} leads to nothing` : "a schema must be an object";
        throw schemaError(pointer, null, reason);
      }
      place = { id: this.#places.size, pointer, schema };
      this.#places.set(pointer, place);
    }
    return place;
  }

  /** The subschema under a keyword of a place, or under a key or an index of the keyword's value. */
  child(place: Subschema, keyword: string, key?: string | number): Subschema {
    const inner = key === undefined ? "" : `/${escapeKey(String(key))}`;
    return this.at(`${place.pointer}/${escapeKey(keyword)}${inner}`, keyword);
  }

  /** The subschema that a `$ref` points to. @throws {ServiceError} For a reference to outside the document. */
  resolve(place: Subschema, reference: unknown): Subschema {
    const refuse = (reason: string) => schemaError(place.pointer, "$ref", reason);
    if (typeof reference !== "string") throw refuse("it must be a text");
    const root = isJsonObject(this.#value) ? this.#value.$id ?? this.#value.id : undefined;
    const own = typeof root === "string" && root !== "" ? root.replace(/#$/, "") : null;
    const local = own !== null && reference.startsWith(own) ? reference.slice(own.length) || "#" : reference;
    const named = this.#names.get(local);
    if (named !== undefined) return this.at(named, "$ref");
    if (!/^#($|\/)/.test(local)) {
      throw refuse(`${reference} is not in this document: put the schema into $defs`);
    }
    let pointer = local.slice(1);
    try {
      pointer = decodeURIComponent(pointer);
    } catch {
      throw refuse(`${reference} has a malformed percent-encoding`);
    }
    if (this.#find(pointer) === undefined) throw refuse(`${reference} does not exist`);
    return this.at(pointer, "$ref");
  }

  #find(pointer: string): unknown {
    let value = this.#value;
    for (const part of pointer.split("/").slice(1)) {
      const key = part.replaceAll("~1", "/").replaceAll("~0", "~");
      if (typeof value !== "object" || value === null || !Object.hasOwn(value, key)) return undefined;
      value = (value as Record<string, unknown>)[key];
    }
    return value;
  }

  /** Measures the depth, and finds names. */
  #scan(): void {
    const open: { value: unknown; pointer: string; depth: number }[] = [
      { value: this.#value, pointer: "", depth: 0 },
    ];
    for (let top = open.pop(); top; top = open.pop()) {
      const { value, pointer, depth } = top;
      if (typeof value !== "object" || value === null) continue;
      if (depth > MAX_SCHEMA_DEPTH) {
        throw schemaError("", null, `it has more than ${MAX_SCHEMA_DEPTH} levels`);
      }
      const { $id, $anchor } = value as SchemaObject;
      if (typeof $anchor === "string") this.#names.set(`#${$anchor}`, pointer);
      if (typeof $id === "string" && pointer !== "") this.#names.set($id, pointer);
      for (const [key, item] of Object.entries(value)) {
        open.push({ value: item, pointer: `${pointer}/${escapeKey(key)}`, depth: depth + 1 });
      }
    }
  }
}
