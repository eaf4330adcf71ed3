/** The cost of a chat template's operations, computed before the library performs them. */

import {
  CHARS_PER_STEP,
  checkText,
  countOf,
  isContainer,
  type RuntimeValue,
  type TemplateBudget,
} from "./template_limits.ts";

/** Filters and methods that return their input, or a part of it, without iterating over it. */
const HANDING_ON = new Set(["default", "first", "last", "length", "list", "safe", "get", "bool", "abs"]);
/** Those that iterate over the items, but not into them. */
const GOING_THROUGH = new Set(["items", "keys", "values", "reverse", "map", "selectattr", "rejectattr"]);

/** The four spaces of Jinja's `indent`. */
const DEFAULT_INDENT = 4;

/** Characters of a pattern that a search compares at once, in the worst case. */
const SEARCH_STRIDE = 64;

/** Where the library makes a list of a text's characters, this many cost a step. */
export const CHARS_PER_ITEM_STEP = 4;

const isText = (value: RuntimeValue | undefined): value is RuntimeValue & { value: string } =>
  typeof value?.value === "string";
const isNumber = (value: RuntimeValue): value is RuntimeValue & { value: number } =>
  typeof value.value === "number";

/** A filter or a method that is about to be called. */
export interface TemplateCall {
  name: string;
  operand: RuntimeValue;
  /** The values of its arguments in order; named ones come last. */
  args: readonly RuntimeValue[];
}

/**
 * Spends the cost of a call.
 *
 * @throws {TemplateLimitError} when the steps are used up, or when the result would be too long.
 */
export function spendOnCall(budget: TemplateBudget, call: TemplateCall): void {
  const { name, operand, args } = call;
  for (const arg of args) budget.spendOn(arg);
  if (HANDING_ON.has(name)) return;
  if (GOING_THROUGH.has(name)) {
    const chars = args.reduce((sum, arg) => sum + (isText(arg) ? arg.value.length : 0), 0);
    return budget.spend(countOf(operand) * (1 + chars / CHARS_PER_STEP));
  }
  if (isText(operand)) return spendOnText(budget, call, operand.value);
  const extent = budget.spendOn(operand);
  if (name === "sort" || name === "dictsort") {
    for (let n = countOf(operand); n > 1; n /= 2) budget.spendOn(operand);
  }
  if (name !== "tojson" && name !== "string" && name !== "join") return;
  // Between items come the separator and the indentation of their level.
  const joined = args.reduce((sum, arg) => sum + charsOf(arg), 0);
  const indent = name === "tojson" ? Math.max(0, ...args.filter(isNumber).map(({ value }) => value)) : 0;
  const chars = extent.chars + extent.items * (joined + indent * (extent.depth + 1));
  checkText(chars);
  budget.spendChars(chars);
}

/** The characters of a text, or of the texts of a list. */
function charsOf(value: RuntimeValue): number {
  if (isText(value)) return value.value.length;
  return Array.isArray(value.value) ? value.value.reduce((sum, item) => sum + charsOf(item), 0) : 0;
}

function spendOnText(budget: TemplateBudget, { name, args }: TemplateCall, text: string): void {
  budget.spendChars(text.length);
  const [first, second] = args;
  const parts = () => isText(first) ? spendOnSearch(budget, text, first.value) : wordsOf(text);
  switch (name) {
    case "split":
      return budget.spend(parts());
    case "title":
      return budget.spend(wordsOf(text));
    case "replace": {
      const found = parts(), replacement = isText(second) ? second.value.length : 0;
      budget.spend(found);
      return spendOnMade(budget, text.length + found * replacement);
    }
    case "indent": {
      const lines = 1 + spendOnSearch(budget, text, "\n"),
        width = args.find(isNumber)?.value ?? DEFAULT_INDENT;
      budget.spend(lines);
      return spendOnMade(budget, text.length + lines * width);
    }
    case "join":
      budget.spend(args.length > 0 ? text.length / CHARS_PER_ITEM_STEP : 0);
      return spendOnMade(budget, text.length * (1 + (isText(first) ? first.value.length : 0)));
  }
}

function spendOnMade(budget: TemplateBudget, chars: number): void {
  checkText(chars);
  budget.spendChars(chars);
}

/** Spends the cost of a search, and counts the matches of the pattern. */
function spendOnSearch(budget: TemplateBudget, text: string, pattern: string): number {
  if (pattern === "") return text.length + 1;
  budget.spendChars(text.length * (1 + pattern.length / SEARCH_STRIDE));
  let found = 0;
  for (let at = text.indexOf(pattern); at >= 0; at = text.indexOf(pattern, at + pattern.length)) found++;
  return found;
}

/** An upper bound of the words that the library finds. */
function wordsOf(text: string): number {
  let words = 0, was_word = false;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i), is_word = code > 47 && code !== 95 && (code < 58 || code > 64);
    if (is_word && !was_word) words++;
    was_word = is_word;
  }
  return words;
}

/** Spends the cost of a binary operation; `and` and `or` cost nothing besides their operands. */
export function spendOnBinary(
  budget: TemplateBudget,
  operator: string,
  [left, right]: readonly [RuntimeValue, RuntimeValue],
): void {
  const are_texts = isText(left) && isText(right), are_lists = isContainer(left) && isContainer(right);
  switch (operator) {
    case "+":
      if (are_lists) return budget.spend(countOf(left) + countOf(right));
      return spendOnConcatenation(budget, left, right);
    case "~":
      return spendOnConcatenation(budget, left, right);
    case "==":
    case "!=":
      if (are_texts) {
        return left.value.length === right.value.length ? budget.spendChars(left.value.length) : undefined;
      }
      // A list that is compared with something else is written out.
      if (!are_lists) { for (const side of [left, right]) budget.spendOn(side); }
      return;
    case "in":
    case "not in": {
      if (are_texts) return void spendOnSearch(budget, right.value, left.value);
      const items = right.value instanceof Map ? 1 : countOf(right);
      return budget.spend(items * (1 + (isText(left) ? left.value.length / CHARS_PER_STEP : 0)));
    }
  }
}

/** Texts are only concatenated, which takes no time; anything else is written out. */
function spendOnConcatenation(budget: TemplateBudget, left: RuntimeValue, right: RuntimeValue): void {
  let chars = 0;
  for (const side of [left, right]) chars += isText(side) ? side.value.length : budget.spendOn(side).chars;
  checkText(chars);
}
