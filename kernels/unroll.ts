/** Expands WGSL templates to straight-line code: named registers instead of indexed private arrays. */

import { assert } from "../core/errors.ts";

/** Integers that replace their names in a template. */
export type UnrollConstants = Readonly<Record<string, number>>;

/**
 * Expands a template. A line `#for d D4` repeats the lines up to its `#end` for d = 0 … D4 − 1. In between, `{d}` and
 * `{D4}` are replaced by their values, and `{4*d+1}` by the result of + * / % on integers, without spaces and from left
 * to right except for +, which comes last. Other text in braces stays. A line `#insert name` stands for the lines of a
 * part: statements that several kernels share, where a function could not use their named registers.
 *
 * @param template Lines of WGSL and directives; loops nest, and a count is a constant's name or a number, also 0.
 * @param parts Templates by the names of `#insert`; they have no `#insert` themselves.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 *
 * const template = "#for i N\nlet x{i} = load({2*i}u);\n#end";
 * assert.equal(unroll(template, { N: 2 }), "let x0 = load(0u);\nlet x1 = load(2u);");
 * ```
 */
export function unroll(
  template: string,
  constants: UnrollConstants,
  parts: Readonly<Record<string, string>> = {},
): string {
  const lines = insertParts(template, parts).split("\n");
  const [text, next] = unrollLines(lines, 0, constants);
  assert(next === lines.length, `a #for before the #end of line ${next + 1}`);
  return text.join("\n");
}

/** Replaces the lines `#insert name` by the part of this name. */
function insertParts(template: string, parts: Readonly<Record<string, string>>): string {
  return template.replace(/^ *#insert (\w+)$/gm, (_, name: string) => {
    assert(Object.hasOwn(parts, name), `a part named ${name}`);
    return parts[name]!.trimEnd();
  });
}

/** Expands the lines from `start` up to an `#end` or the end of the text; also returns that position. */
function unrollLines(lines: readonly string[], start: number, names: UnrollConstants): [string[], number] {
  const out: string[] = [];
  let at = start;
  for (; at < lines.length; at++) {
    const line = lines[at]!.trim();
    if (line === "#end") return [out, at];
    if (!line.startsWith("#")) {
      out.push(substitute(lines[at]!, names));
      continue;
    }
    const loop = /^#for (\w+) (\w+)$/.exec(line);
    assert(loop, `"#for name count" or "#end" in line ${at + 1}, not ${line}`);
    const count = names[loop[2]!] ?? Number(loop[2]);
    assert(Number.isInteger(count) && count >= 0, `a count in line ${at + 1}, not ${loop[2]}`);
    let end = at;
    // With a count of 0 the lines are expanded for their end alone.
    for (let i = 0; i < Math.max(count, 1); i++) {
      const [body, last] = unrollLines(lines, at + 1, { ...names, [loop[1]!]: i });
      assert(last < lines.length, `an #end for the #for of line ${at + 1}`);
      if (count > 0) { for (const text of body) out.push(text); }
      end = last;
    }
    at = end;
  }
  return [out, at];
}

function substitute(line: string, names: UnrollConstants): string {
  return line.replace(/\{([\w+*/%]+)\}/g, (whole, expression: string) => {
    const sum = expression.split("+").reduce((total, product) => total + productOf(product, names), 0);
    return Number.isInteger(sum) ? String(sum) : whole;
  });
}

/** The value of names and integers joined by * / %, from left to right; NaN for an unknown name. */
function productOf(product: string, names: UnrollConstants): number {
  const [first, ...rest] = product.split(/([*/%])/);
  const value = (word: string | undefined) => names[word!] ?? (/^\d+$/.test(word!) ? Number(word) : NaN);
  let result = value(first);
  for (let i = 0; i < rest.length; i += 2) {
    const right = value(rest[i + 1]);
    result = rest[i] === "*" ? result * right : rest[i] === "/" ? Math.floor(result / right) : result % right;
  }
  return result;
}
