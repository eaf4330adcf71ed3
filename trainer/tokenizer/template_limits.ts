/**
 * Limits on chat templates. A template is a program that comes with a model from anywhere: without limits it could take
 * unlimited time and memory. Work is counted in steps, not in seconds, so that the result does not depend on the
 * machine.
 */

/** The most steps of a render. A step is an evaluation, an iterated item of a list, or some text. */
export const MAX_TEMPLATE_STEPS = 500_000;
/** Characters that are read or written in one step. */
export const CHARS_PER_STEP = 100;
/** The most characters of a render, and of any text on the way to it. */
export const MAX_RENDER_CHARS = 1 << 21;
/** The deepest nesting of evaluations: of expressions, blocks and calls of macros. */
export const MAX_TEMPLATE_DEPTH = 500;
/** The most characters of a template's source. */
export const MAX_TEMPLATE_CHARS = 1 << 18;
/** The most consecutive spaces and line ends in a source: the library reads them again from each of their positions. */
export const MAX_TEMPLATE_SPACES = 1024;

const LIMITS = {
  MAX_TEMPLATE_STEPS,
  MAX_RENDER_CHARS,
  MAX_TEMPLATE_DEPTH,
  MAX_TEMPLATE_CHARS,
  MAX_TEMPLATE_SPACES,
};

/** A template exceeded a limit; the message names it. */
export class TemplateLimitError extends Error {
  constructor(readonly limit: keyof typeof LIMITS, what: string) {
    super(`${what}, above the limit ${limit} = ${LIMITS[limit]}`);
  }
}

/** @throws {TemplateLimitError} */
export function checkSource(source: string): void {
  if (source.length > MAX_TEMPLATE_CHARS) {
    throw new TemplateLimitError("MAX_TEMPLATE_CHARS", `it has ${source.length} characters`);
  }
  let spaces = 0;
  for (const char of source) {
    spaces = /\s/.test(char) ? spaces + 1 : 0;
    if (spaces > MAX_TEMPLATE_SPACES) {
      throw new TemplateLimitError("MAX_TEMPLATE_SPACES", "it has too many spaces in a row");
    }
  }
}

/** @throws {TemplateLimitError} */
export function checkText(chars: number): void {
  if (chars <= MAX_RENDER_CHARS) return;
  throw new TemplateLimitError("MAX_RENDER_CHARS", "it makes a text that is too long");
}

/** The size-related part of a template's value. */
export interface RuntimeValue {
  type: string;
  value: unknown;
}

/**
 * The size of a value with everything in it. A value that is contained twice counts twice, as when it is written out.
 * `depth` is 0 for a value that contains nothing.
 */
export interface Extent {
  items: number;
  chars: number;
  depth: number;
}

/** Counts the work of a render, and stops it. */
export class TemplateBudget {
  #left = MAX_TEMPLATE_STEPS;
  #depth = 0;
  readonly #extents = new WeakMap<RuntimeValue, Extent>();

  /** @throws {TemplateLimitError} when the steps are used up. */
  spend(steps: number): void {
    this.#left -= steps;
    if (!(this.#left >= 0)) {
      throw new TemplateLimitError("MAX_TEMPLATE_STEPS", "it takes too many steps (does a loop not end?)");
    }
  }

  /** Text that is read or written. */
  spendChars(chars: number): void {
    this.spend(chars / CHARS_PER_STEP);
  }

  /** One more level of evaluation. */
  within<T>(evaluate: () => T): T {
    checkDepth(++this.#depth);
    try {
      return evaluate();
    } finally {
      this.#depth--;
    }
  }

  /** Spends the cost of iterating over a value, and returns its size. */
  spendOn(value: RuntimeValue): Extent {
    const { extent } = this.#measure(value, 0);
    this.spend(stepsOf(extent));
    return extent;
  }

  #measure(value: RuntimeValue, level: number): { extent: Extent; is_fixed: boolean } {
    checkDepth(level);
    const known = this.#extents.get(value);
    if (known) return { extent: known, is_fixed: true };
    const extent = { items: 0, chars: typeof value.value === "string" ? value.value.length : 0, depth: 0 };
    // Only a namespace can change after it was created.
    let is_fixed = value.type !== "NamespaceValue";
    for (const [key_chars, held] of entriesOf(value)) {
      const part = this.#measure(held, level + 1);
      is_fixed &&= part.is_fixed;
      extent.items += 1 + part.extent.items;
      extent.chars += key_chars + part.extent.chars;
      extent.depth = Math.max(extent.depth, 1 + part.extent.depth);
      checkDepth(level + extent.depth);
      if (stepsOf(extent) > this.#left) this.spend(stepsOf(extent));
    }
    if (is_fixed && isContainer(value)) this.#extents.set(value, extent);
    return { extent, is_fixed };
  }
}

/** @throws {TemplateLimitError} */
function checkDepth(depth: number): void {
  if (depth > MAX_TEMPLATE_DEPTH) throw tooDeep();
}

export function tooDeep(): TemplateLimitError {
  return new TemplateLimitError("MAX_TEMPLATE_DEPTH", "it is nested too deep (does a macro call itself?)");
}

function stepsOf({ items, chars }: Extent): number {
  return items + chars / CHARS_PER_STEP;
}

/** The number of items of a list or object, or of characters of a text. */
export function countOf({ value }: RuntimeValue): number {
  if (typeof value === "string" || Array.isArray(value)) return value.length;
  return value instanceof Map ? value.size : 0;
}

export function isContainer({ value }: RuntimeValue): boolean {
  return Array.isArray(value) || value instanceof Map;
}

/** The contents of a value, each with the length of its key. */
function* entriesOf({ value }: RuntimeValue): Iterable<[key_chars: number, value: RuntimeValue]> {
  if (Array.isArray(value)) { for (const item of value) yield [0, item]; }
  else if (value instanceof Map) { for (const [key, item] of value) yield [key.length, item]; }
}
