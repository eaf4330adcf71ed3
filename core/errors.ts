/** The one error type of operating failures, and the closed list of its codes. */

import { systemRefusal } from "./system_errors.ts";

/**
 * What went wrong, in a word that a program can test.
 * `config_invalid`: a configuration or an argument; `data_invalid`: what a named file holds; `format_invalid`: a
 * malformed GGUF, safetensors or checkpoint; `path_not_found`; `already_exists`; `not_built`: a part that this
 * build does not have; `device_unavailable`; `device_lost`; `out_of_memory`; `loss_not_finite`;
 * `environment_failed`; `tool_failed`; `judge_failed`; `template_failed`; `max_dropped_fraction`; `conflict`;
 * `cancelled`; `internal`.
 */
export type ErrorCode =
  | "config_invalid"
  | "data_invalid"
  | "format_invalid"
  | "path_not_found"
  | "already_exists"
  | "not_built"
  | "device_unavailable"
  | "device_lost"
  | "out_of_memory"
  | "loss_not_finite"
  | "environment_failed"
  | "tool_failed"
  | "judge_failed"
  | "template_failed"
  | "max_dropped_fraction"
  | "conflict"
  | "cancelled"
  | "internal";

/** An operating failure: something outside the program is wrong. Programmers' errors assert instead. */
export class ServiceError extends Error {
  /**
   * @param code The stable part.
   * @param message "Cannot <do>: <reason>", naming the place and, where there is one, the fix.
   * @param details Plain data for whoever reports the failure.
   */
  // deno-lint-ignore rooms/max-parameters -- the two of Error and two more, read together everywhere
  constructor(
    readonly code: ErrorCode,
    message: string,
    readonly details: Readonly<Record<string, unknown>> = {},
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.name = "ServiceError";
  }
}

/** The plain-data form in which an error crosses a thread or reaches a file. */
export interface ErrorRecord {
  code: ErrorCode;
  message: string;
  details: Readonly<Record<string, unknown>>;
}

/** Turns anything thrown into plain data; what is not a {@link ServiceError} is `internal`. */
export function errorRecord(error: unknown): ErrorRecord {
  if (error instanceof ServiceError) {
    return { code: error.code, message: error.message, details: error.details };
  }
  return { code: "internal", message: errorText(error), details: {} };
}

/** The inverse of {@link errorRecord}. */
export function errorFromRecord(record: ErrorRecord): ServiceError {
  return new ServiceError(record.code, record.message, record.details);
}

/** Asserts what only a programmer's mistake can break. */
export function assert(condition: unknown, message: string): asserts condition {
  if (!condition) throw new Error(`Assertion failed: ${message}`);
}

/**
 * A refusal of the operating system as "Cannot <what>: <reason>; <fix>". Any other error is given back as it is.
 *
 * @param what Names the place.
 * @param code Of a refusal that another path or mode would mend; one on the machine's side is `internal`.
 */
export function systemError(what: string, error: unknown, code: ErrorCode = "path_not_found"): unknown {
  const refusal = systemRefusal(error);
  if (!refusal) return error;
  const { reason, fix, is_machine } = refusal;
  const message = `Cannot ${what}: ${reason}${fix === undefined ? "" : `; ${fix}`}`;
  return new ServiceError(is_machine ? "internal" : code, message, {}, { cause: error });
}

/** Runs something with files; what the operating system refuses becomes a {@link systemError}. */
export async function doing<T>(what: string, run: () => T | Promise<T>, code?: ErrorCode): Promise<T> {
  try {
    return await run();
  } catch (error) {
    throw systemError(what, error, code);
  }
}

/** Any error as one message: a refusal tells its reason, a bug shows its stack. */
export function errorText(error: unknown): string {
  if (error instanceof ServiceError) return error.message;
  const told = systemError("go on", error);
  // Whoever met it did not name the place: the operating system's own words do.
  if (told instanceof ServiceError) return `${told.message} (${(error as Error).message})`;
  return error instanceof Error ? error.stack ?? error.message : String(error);
}
