/** Limits of a schema and of the work of compiling it: schemas come from clients. */

import { ServiceError } from "../../core/errors.ts";

/** UTF-16 units of a schema's text. */
export const MAX_SCHEMA_LENGTH = 1 << 18;
/** Levels of arrays and objects in a schema. */
export const MAX_SCHEMA_DEPTH = 100;
/** UTF-16 units of a `pattern`. */
export const MAX_PATTERN_LENGTH = 4096;
/** Combinations of subschemas that one place of a value may have to satisfy. */
export const MAX_NODES = 20_000;
/** Combinations of alternatives (anyOf, oneOf, dependencies) at one place. */
export const MAX_ALTERNATIVES = 1024;
/** States of the automata for patterns, formats and numbers with bounds, in one schema. */
const MAX_STATES = 10_000;
/** Expressions and transitions that compiling a schema may create: about a second. */
const MAX_WORK = 1_000_000;
/** Levels of arrays and objects in a text. */
export const MAX_TEXT_DEPTH = 128;
/** Alternatives that are followed at the same time, while a text does not tell them apart. */
export const MAX_THREADS = 4096;

/** A refused schema. @param pointer JSON pointer to the place. @param keyword Null: the schema itself. */
export function schemaError(pointer: string, keyword: string | null, reason: string): ServiceError {
  const at = keyword === null ? pointer : `${pointer}/${keyword.replaceAll("~", "~0").replaceAll("/", "~1")}`;
  return new ServiceError("config_invalid", `Cannot use the JSON schema: at ${at || "its root"}, ${reason}`, {
    pointer: at,
    keyword,
  });
}

/** Counts the work of compiling a schema. */
export class CompileBudget {
  #work = 0;
  #states = 0;
  /** The place that is compiled. */
  pointer = "";

  /** @throws {ServiceError} `config_invalid` when the schema has taken too much work. */
  spend(steps = 1): void {
    this.#work += steps;
    if (this.#work > MAX_WORK) {
      throw schemaError(this.pointer, null, `it takes more than ${MAX_WORK} steps to compile: simplify it`);
    }
  }

  spendState(): void {
    if (++this.#states > MAX_STATES) {
      const reason = `its patterns, formats and bounds need more than ${MAX_STATES} states: ` +
        "simplify them or lower the lengths that go with them";
      throw schemaError(this.pointer, null, reason);
    }
  }
}
