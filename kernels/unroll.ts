/** Straight-line WGSL from a template: named registers instead of indexed private arrays. */

import { assert } from "../core/errors.ts";

/** Whole numbers that stand for their names in a template. */
export type UnrollConstants = Readonly<Record<string, number>>;

/**
 * Writes a template out. A line `#for d D4` repeats the lines up to its `#end` for d = 0 … D4 − 1; `{d}` and `{D4}`
 * stand for their values everywhere between, and `{4*d+1}` for what comes of + * / % on whole numbers, without spaces
 * and from left to right but for +, which comes last. What else is in braces stays as it is.
 *
 * @param template Lines of WGSL and directives; loops nest, and a count is a constant's name or a number.
 */
export function unroll(template: string, constants: UnrollConstants): string {
  const lines = template.split("\n");
  const [text, next] = unrollLines(lines, 0, constants);
  assert(next === lines.length, `a #for before the #end of line ${next + 1}`);
  return text.join("\n");
}

/** The lines from `start` up to an `#end` or the end of the text, written out, and where that is. */
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
    assert(Number.isInteger(count) && count > 0, `a count above 0 in line ${at + 1}, not ${loop[2]}`);
    let end = at;
    for (let i = 0; i < count; i++) {
      const [body, last] = unrollLines(lines, at + 1, { ...names, [loop[1]!]: i });
      assert(last < lines.length, `an #end for the #for of line ${at + 1}`);
      for (const text of body) out.push(text);
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

/** The value of names and whole numbers joined by * / %, from left to right; NaN where a name is not known. */
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

/** The text for a subgroup of one: what a lane would get from another lane or from all is its own value. */
export function withoutSubgroups(text: string): string {
  return text.replace(/subgroupBroadcast\((\w+), 0u\)/g, "$1").replace(/subgroup(?:Max|Min)\(/g, "(");
}
