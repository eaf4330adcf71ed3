/** Compiles a JSON schema: the texts of its values, as a grammar that a mask follows. */

import { CompileBudget, schemaError } from "./limits.ts";
import { type GrammarSymbol, RuleTable } from "./rules.ts";
import type { RegexArena } from "./regex.ts";
import { Resolver } from "./resolver.ts";
import { SchemaDocument } from "./schema_document.ts";
import { measureHeights } from "./schema_node.ts";

/** A compiled schema. */
export interface Grammar {
  readonly arena: RegexArena;
  /** A text consists of these, in order. */
  readonly symbols: readonly GrammarSymbol[];
}

/**
 * The texts of a schema's values: JSON with at most one space before it, and after commas and colons; properties in
 * the order of the schema. docs/reference/structured_output.md lists the keywords.
 *
 * @throws {ServiceError} `config_invalid` with the JSON pointer and the keyword of what cannot be enforced, or the
 * name of the limit that is exceeded.
 */
export function compileSchema(schema: string, arena: RegexArena): Grammar {
  const budget = arena.budget = new CompileBudget();
  try {
    const document = new SchemaDocument(schema), resolver = new Resolver(document, arena, budget);
    const root = resolver.node([document.root]);
    resolver.resolveAll();
    measureHeights(resolver.nodes);
    const possible = resolver.obligations.find(({ node }) => node.height < Infinity);
    if (possible) throw possible.error;
    if (root.height === Infinity) throw schemaError("", null, "no value satisfies it");
    const space = arena.optional(arena.text(" "));
    return { arena, symbols: [space, new RuleTable(arena).value(root)] };
  } finally {
    arena.budget = null;
  }
}
