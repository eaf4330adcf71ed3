/** Where an OpenAI-compatible endpoint is, and the key that it wants. */

import { ServiceError } from "../errors.ts";

/** An endpoint as a configuration names it. */
export interface Endpoint {
  /** With the prefix of the API's paths, such as `https://api.example/v1`. */
  base_url: string;
  model: string;
  /** The environment variable with the key; absent: no key is sent. */
  api_key_env?: string | undefined;
}

/** The address of chat completions below a base address. Its query stays. */
export function chatCompletionsUrl(base_url: string): URL {
  const url = new URL(base_url);
  url.pathname = `${url.pathname.replace(/\/+$/, "")}/chat/completions`;
  url.hash = "";
  return url;
}

/** The host and port of an address, as a permission of Deno names them. */
export function endpointHost(base_url: string): string {
  const { protocol, hostname, port } = new URL(base_url);
  return `${hostname}:${port || (protocol === "https:" ? "443" : "80")}`;
}

/** What an endpoint's key may consist of: what a header can carry. */
const KEY = /^[\x21-\x7e]+$/;

/**
 * Reads an endpoint's key. No message has its value.
 *
 * @param what What the key is for, such as "the judge".
 * @param setting The configuration's key that names the variable.
 * @returns Null when the endpoint wants none.
 * @throws {ServiceError} `config_invalid`, naming the variable.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 *
 * const about = { what: "the judge", setting: "agent.judge.api_key_env" };
 * assert.equal(readKey(undefined, about), null);
 * assert.throws(() => readKey("SVC_NO_SUCH_KEY", about), /the environment variable SVC_NO_SUCH_KEY is not set/);
 * ```
 */
export function readKey(
  variable: string | undefined,
  { what, setting }: { what: string; setting: string },
): string | null {
  if (variable === undefined) return null;
  const value = Deno.env.get(variable)?.trim();
  if (value && KEY.test(value)) return value;
  const reason = value ? "has characters that no header can carry" : value === "" ? "is empty" : "is not set";
  throw new ServiceError(
    "config_invalid",
    `Cannot ask ${what}: the environment variable ${variable} ${reason}; set it to the key, or leave ${setting} out`,
    { variable },
  );
}
