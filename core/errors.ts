/** The error type for operating failures, and all its codes. */

import { systemRefusal } from "./system_errors.ts";

/**
 * A stable code that a program can test.
 * `config_invalid`: a configuration or an argument; `data_invalid`: the contents of a named file; `format_invalid`: a
 * malformed GGUF, safetensors or checkpoint; `path_not_found`; `already_exists`; `not_built`: a part that this build
 * does not have; `device_unavailable`; `device_lost`; `out_of_memory`; `loss_not_finite`; `environment_failed`;
 * `tool_failed`; `judge_failed`: of a judge or a reward program; `model_failed`: of a hosted model;
 * `infrastructure_failed`: of what sandboxes run on, such as a container engine or the disk for workspaces;
 * `template_failed`; `max_dropped_fraction`; `conflict`; `cancelled`; `internal`.
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
  | "infrastructure_failed"
  | "model_failed"
  | "template_failed"
  | "max_dropped_fraction"
  | "conflict"
  | "cancelled"
  | "internal";

/**
 * An operating failure: something outside the program is wrong. A programmer's mistake is an assertion instead.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 *
 * const error = new ServiceError("path_not_found", "Cannot read a.txt: no such file", { path: "a.txt" });
 * assert.deepEqual(errorRecord(error).details, { path: "a.txt" });
 * ```
 */
export class ServiceError extends Error {
  /**
   * @param code The stable code.
   * @param message "Cannot <do>: <reason>", naming the place and, where one is known, the fix.
   * @param details Plain data for programs that report the failure.
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

/** An error as plain data, to cross a thread or to be stored in a file. */
export interface ErrorRecord {
  code: ErrorCode;
  message: string;
  details: Readonly<Record<string, unknown>>;
}

/** Converts a thrown value to plain data. Anything but a {@link ServiceError} becomes `internal`. */
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

/** Throws when the condition is false. Only a programmer's mistake can make it false. */
export function assert(condition: unknown, message: string): asserts condition {
  if (!condition) throw new Error(`Assertion failed: ${message}`);
}

/**
 * Converts an error of the operating system to "Cannot <what>: <reason>; <fix>". Returns any other error unchanged.
 *
 * @param what The operation, with the path.
 * @param code The code for errors that another path or mode would avoid. Errors of the machine are `internal`.
 */
export function systemError(what: string, error: unknown, code: ErrorCode = "path_not_found"): unknown {
  const refusal = systemRefusal(error);
  if (!refusal) return error;
  const { reason, fix, is_machine } = refusal;
  const message = `Cannot ${what}: ${reason}${fix === undefined ? "" : `; ${fix}`}`;
  return new ServiceError(is_machine ? "internal" : code, message, {}, { cause: error });
}

/** Runs a file operation. Errors of the operating system become a {@link systemError}. */
export async function doing<T>(what: string, run: () => T | Promise<T>, code?: ErrorCode): Promise<T> {
  try {
    return await run();
  } catch (error) {
    throw systemError(what, error, code);
  }
}

/**
 * Waits for work whose failures are about something, such as a file.
 *
 * @throws {ServiceError} That of the work, with these details besides its own.
 */
export async function withDetails<T>(
  details: Readonly<Record<string, unknown>>,
  work: Promise<T>,
): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    throw new ServiceError(error.code, error.message, { ...details, ...error.details }, { cause: error });
  }
}

/** The message of an error. A bug also shows its stack. */
export function errorText(error: unknown): string {
  if (error instanceof ServiceError) return error.message;
  const failure = systemError("go on", error);
  // The caller did not name the place, but the operating system's own message does.
  if (failure instanceof ServiceError) return `${failure.message} (${(error as Error).message})`;
  return error instanceof Error ? error.stack ?? error.message : String(error);
}
