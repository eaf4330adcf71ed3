/** Where a problem of a request is shown: at a field of the form, or at a line of the text. */

import { locateKeys } from "../../../config/text/locate.ts";
import type { Problem, ProblemError, Warning } from "../../../api/types.ts";

/** The JSON pointer of a field. */
export function pointerOf(path: readonly string[]): string {
  return path.map((part) => `/${part.replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");
}

/** The parts of a JSON pointer. */
function partsOf(pointer: string): string[] {
  return pointer.split("/").slice(1).map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
}

/** Problems at their fields. */
export interface PlacedErrors {
  /** By the pointer of a field. */
  at: ReadonlyMap<string, readonly ProblemError[]>;
  /** Those of no field. */
  rest: readonly ProblemError[];
}

/** Gives each problem to the field that it is about: the one whose pointer is the longest part of the problem's. */
export function placeErrors(errors: readonly ProblemError[], fields: readonly string[]): PlacedErrors {
  const at = new Map<string, ProblemError[]>(), rest: ProblemError[] = [];
  for (const error of errors) {
    const own = fields.filter((field) => error.pointer === field || error.pointer.startsWith(`${field}/`));
    const field = own.sort((a, b) => b.length - a.length)[0];
    if (field === undefined) rest.push(error);
    else at.set(field, [...at.get(field) ?? [], error]);
  }
  return { at, rest };
}

/** A remark at a line of a text. */
export interface LineRemark {
  /** From 1. */
  line: number;
  /** From 1; null for the whole line. */
  column: number | null;
  severity: "error" | "warning";
  message: string;
}

/** The place that a message about a text which is not TOML ends with. */
const SYNTAX_PLACE = / \(line (\d+)(?:, column (\d+))?\)$/;

/** The server's problem with a TOML text, by lines. A key that is missing is shown at its section, or at the first line. */
export function lineErrors(text: string, { errors }: Problem): LineRemark[] {
  let lines: ReturnType<typeof locateKeys> | null = null;
  return errors.map(({ pointer, message, hint }) => {
    const [place, line, column = null] = SYNTAX_PLACE.exec(message) ?? [];
    const said = hint === undefined ? message : `${message}; ${hint}`;
    if (pointer === "" && place !== undefined) {
      return {
        ...{ line: Number(line), column: column === null ? null : Number(column) },
        ...{ severity: "error", message: said.replace(place, "") },
      };
    }
    lines ??= locateKeys(text);
    const path = partsOf(pointer), named = path.length > 0 ? `${path.join(".")} ${said}` : said;
    return { line: lines.lineOf(path), column: null, severity: "error", message: named };
  });
}

/** A plan's warnings, by the lines of the TOML text; those about no key are left out. */
export function lineWarnings(text: string, warnings: readonly Warning[]): LineRemark[] {
  const lines = locateKeys(text);
  return warnings.flatMap(({ field, message }) =>
    field === undefined || lines.depthOf(field.split(".")) === 0
      ? []
      : [{ line: lines.lineOf(field.split(".")), column: null, severity: "warning", message }]
  );
}
