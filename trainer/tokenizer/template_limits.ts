/**
 * What a chat template may spend. A template comes with a model from anywhere, and it is a program: without limits it
 * can take all the time and memory there is. Work is counted in steps, not in seconds, so that a template is refused
 * or not whatever machine renders it.
 */

/** Most steps of one render. A step is an evaluation, an item of a list that is gone through, or some text. */
export const MAX_TEMPLATE_STEPS = 500_000;
/** Characters that are read or written in one step. */
export const CHARS_PER_STEP = 100;
/** Most characters of one render, and of any text on the way to it. */
export const MAX_RENDER_CHARS = 1 << 21;
/** Deepest nesting of evaluations: of expressions, blocks and calls of macros. */
export const MAX_TEMPLATE_DEPTH = 500;
/** Most characters of a template's source. */
export const MAX_TEMPLATE_CHARS = 1 << 18;
/** Most spaces and line ends in a row in a source: the library reads such a row again from each of its places. */
export const MAX_TEMPLATE_SPACES = 1024;

const LIMITS = {
  MAX_TEMPLATE_STEPS,
  MAX_RENDER_CHARS,
  MAX_TEMPLATE_DEPTH,
  MAX_TEMPLATE_CHARS,
  MAX_TEMPLATE_SPACES,
};

/** A template went beyond one of the limits; the message names it. */
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

/** A value of a template, as far as its size is concerned. */
export interface RuntimeValue {
  type: string;
  value: unknown;
}

/**
 * A value with all that it holds: what is held in two places counts twice, as it does when it is written out. `depth`
 * is 0 for a value that holds nothing.
 */
export interface Extent {
  items: number;
  chars: number;
  depth: number;
}

/** Counts what one render does, and stops it. */
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

  /** Spends what it takes to go through a value, and says how much that was. */
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
    // Only a namespace can be changed once it is made.
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
  if (depth <= MAX_TEMPLATE_DEPTH) return;
  throw new TemplateLimitError("MAX_TEMPLATE_DEPTH", "it is nested too deep (does a macro call itself?)");
}

function stepsOf({ items, chars }: Extent): number {
  return items + chars / CHARS_PER_STEP;
}

/** How many items a list or an object holds; the characters of a text. */
export function countOf({ value }: RuntimeValue): number {
  if (typeof value === "string" || Array.isArray(value)) return value.length;
  return value instanceof Map ? value.size : 0;
}

export function isContainer({ value }: RuntimeValue): boolean {
  return Array.isArray(value) || value instanceof Map;
}

/** What a value holds, each with the length of its key. */
function* entriesOf({ value }: RuntimeValue): Iterable<[key_chars: number, value: RuntimeValue]> {
  if (Array.isArray(value)) { for (const item of value) yield [0, item]; }
  else if (value instanceof Map) { for (const [key, item] of value) yield [key.length, item]; }
}
