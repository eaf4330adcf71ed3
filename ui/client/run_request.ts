/** A run that is planned or started. */

import type { Fork, Plan, Recipe, Run } from "../../api/types.ts";
import type { Api } from "./api.ts";

/** A recipe or a fork, or a whole configuration as TOML. */
export type RunRequest = { recipe: Recipe | Fork } | { toml: string };

/** The bytes of a request: equal for equal requests. */
export function bodyOf(request: RunRequest): { content_type: string; text: string } {
  return "toml" in request
    ? { content_type: "application/toml", text: request.toml }
    : { content_type: "application/json", text: JSON.stringify(request.recipe) };
}

async function post(
  api: Api,
  target: string,
  { request, ...rest }: { request: RunRequest; signal?: AbortSignal; headers?: Record<string, string> },
): Promise<unknown> {
  const { content_type, text } = bodyOf(request);
  const response = await api.open(target, {
    method: "POST",
    headers: { "content-type": content_type, ...rest.headers },
    body: text,
    ...(rest.signal && { signal: rest.signal }),
  });
  return await response.json();
}

/** Asks for the plan of a run. @param is_measured Measures an update on the device. @throws As `Api.call`. */
export async function planRun(
  api: Api,
  request: RunRequest,
  { signal, is_measured }: { signal: AbortSignal; is_measured: boolean },
): Promise<Plan> {
  return await post(api, `./v1/plan${is_measured ? "?calibrate=true" : ""}`, { request, signal }) as Plan;
}

/** Starts runs: a request that is sent again because its answer was lost starts no second run. */
export class RunStarter {
  readonly #api: Api;
  readonly #newKey: () => string;
  /** The key of the request that was sent last; null once its run is known. */
  #intent: { body: string; key: string } | null = null;

  constructor(api: Api, newKey: () => string = randomKey) {
    this.#api = api;
    this.#newKey = newKey;
  }

  /** @throws As `Api.call`. */
  async start(request: RunRequest): Promise<Run> {
    const { content_type, text } = bodyOf(request), body = `${content_type}\n${text}`;
    if (this.#intent?.body !== body) this.#intent = { body, key: this.#newKey() };
    const headers = { "idempotency-key": this.#intent.key };
    const run = await post(this.#api, "./v1/runs", { request, headers }) as Run;
    this.#intent = null;
    return run;
  }
}

/** Bytes of a key: enough that two are never equal. */
const KEY_BYTES = 16;

/** `crypto.randomUUID` is missing where a page comes over plain HTTP from another machine. */
function randomKey(): string {
  return [...crypto.getRandomValues(new Uint8Array(KEY_BYTES))]
    .map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
