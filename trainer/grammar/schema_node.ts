/** A schema as a graph: at every node the alternatives for a value, without references and combinations. */

import type { Facts } from "./facts.ts";
import type { Regex, RegexArena } from "./regex.ts";
import type { SchemaDocument, Subschema } from "./schema_document.ts";

/** A property with a declared name. */
export interface Field {
  /** The name in quotes. */
  key: Regex;
  value: SchemaNode;
  is_required: boolean;
}

/** Properties with undeclared names. */
export interface OtherKeys {
  key: Regex;
  value: SchemaNode;
}

export type Alternative =
  /** A number, a string, a literal, or one of given values. */
  | { type: "text"; text: Regex }
  | { type: "array"; prefix: readonly SchemaNode[]; items: SchemaNode | null; min: number; max: number }
  /** Different ones of these texts, in their order. */
  | { type: "subset"; texts: readonly Regex[]; min: number; max: number }
  | { type: "object"; fields: readonly Field[]; others: readonly OtherKeys[]; min: number; max: number };

/** A conjunction of places. Equal conjunctions are one node, so recursion ends. */
export interface SchemaNode {
  readonly places: readonly Subschema[];
  /** Whether it only serves to see that nothing satisfies it: objects are open, and oneOf counts as anyOf. */
  readonly is_check: boolean;
  /** Whether it is about the names of properties. */
  readonly is_key: boolean;
  /** The only names of properties; null: any. */
  readonly closed: readonly string[] | null;
  /** Whether the alternatives have been found. */
  is_resolved: boolean;
  /** Its given values in order; null when it has others, or is not resolved. */
  values: readonly unknown[] | null;
  alternatives: Alternative[];
  /** The levels of containers of its flattest value; infinite when no value satisfies it. */
  height: number;
}

/** Which of the nodes of a conjunction is meant. */
export type NodeKind = Partial<Pick<SchemaNode, "is_check" | "is_key" | "closed">>;

/** Makes nodes. */
export interface NodeSource {
  readonly document: SchemaDocument;
  readonly arena: RegexArena;
  /** The node of a conjunction, whose alternatives are found later. */
  node(places: readonly Subschema[], kind?: NodeKind): SchemaNode;
  /** A node without values. */
  nothing(): SchemaNode;
  /** Finds the alternatives of a node now. */
  resolve(node: SchemaNode): void;
  /** The texts of a node that is a list of given values; null for another. */
  valueTexts(node: SchemaNode): Regex[] | null;
}

/** The inputs for the alternatives of a node. */
export interface NodeContext {
  resolver: NodeSource;
  node: SchemaNode;
  facts: Facts;
}

/** A node that must have no values, and the error to throw if it has. */
export interface Obligation {
  node: SchemaNode;
  error: Error;
}

/** Computes all heights, and leaves out what has no value. */
export function measureHeights(nodes: readonly SchemaNode[]): void {
  // Parts are made after what contains them, so most heights are known after one round from the last node on.
  const order = nodes.toReversed();
  for (let is_changed = true; is_changed;) {
    is_changed = false;
    for (const node of order) {
      const height = Math.min(...node.alternatives.map(alternativeHeight), Infinity);
      if (height < node.height) {
        node.height = height;
        is_changed = true;
      }
    }
  }
  for (const node of nodes) {
    node.alternatives = node.alternatives.filter((alternative) => alternativeHeight(alternative) < Infinity);
  }
}

/** The least depth of an alternative's values. */
export function alternativeHeight(alternative: Alternative): number {
  switch (alternative.type) {
    case "text":
      return 0;
    case "subset":
      return alternative.min > Math.min(alternative.texts.length, alternative.max) ? Infinity : 1;
    case "array": {
      const { prefix, items, min, max } = alternative;
      if (min > max) return Infinity;
      const needed = prefix.slice(0, min);
      if (min > prefix.length) {
        if (!items) return Infinity;
        needed.push(items);
      }
      return 1 + Math.max(0, ...needed.map((node) => node.height));
    }
    case "object":
      return objectHeight(alternative);
  }
}

function objectHeight({ fields, others, min, max }: Extract<Alternative, { type: "object" }>): number {
  const required = fields.filter((field) => field.is_required);
  const height = Math.max(0, ...required.map((field) => field.value.height));
  if (Math.max(required.length, min) > max) return Infinity;
  // Undeclared names may repeat, so they count once.
  const optional = [
    ...fields.filter((field) => !field.is_required).map((field) => field.value.height),
    Math.min(Infinity, ...others.map((other) => other.value.height)),
  ].filter((each) => each < Infinity).sort((a, b) => a - b);
  const missing = min - required.length;
  if (missing > optional.length) return Infinity;
  return 1 + Math.max(height, missing > 0 ? optional[missing - 1]! : 0);
}
