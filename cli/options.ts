/** Options and arguments that several commands share. */

import { Argument, InvalidArgumentError } from "commander";
import { describeKeys } from "../config/describe.ts";
import { LIMITS, type NumericKey, type Range } from "../config/sections/limits.ts";

/** A parser for an option whose value replaces `key`, and must be valid for it. */
export function numberFor(key: NumericKey): (text: string) => number {
  const { min, max, above, below }: Range = LIMITS[key];
  const type = describeKeys().find((found) => found.key === key)!.type;
  return (text) => {
    const value = text.trim() === "" ? NaN : Number(text);
    const is_inside = (above ? value > min : value >= min) && (below ? value < max : value <= max);
    if (is_inside && (!type.startsWith("integer") || Number.isInteger(value))) return value;
    throw new InvalidArgumentError(`It must be: ${type}.`);
  };
}

/** The `key=value` argument of every command that loads a run configuration. */
export function overridesArgument(): Argument {
  const description = "replaces a value of the configuration, such as training.lr=1e-4";
  return new Argument("[key=value...]", description);
}
