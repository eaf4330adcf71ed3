/** Adds the key of the configuration that names a file to errors of reading it. */

import { withDetails } from "../../core/errors.ts";

/**
 * Waits for what is read from the file of a key.
 *
 * @throws {ServiceError} That of `reading`, with the key as `details.config_key`.
 */
export async function atKey<T>(key: string, reading: Promise<T>): Promise<T> {
  return await withDetails({ config_key: key }, reading);
}
