/** Adds the key of the configuration that names a file to errors of reading it. */

import { ServiceError } from "../../core/errors.ts";

/**
 * Waits for what is read from the file of a key.
 *
 * @throws {ServiceError} That of `reading`, with the key as `details.key`.
 */
export async function atKey<T>(key: string, reading: Promise<T>): Promise<T> {
  try {
    return await reading;
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    throw new ServiceError(error.code, error.message, { ...error.details, key }, { cause: error });
  }
}
