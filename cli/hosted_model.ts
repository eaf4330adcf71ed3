/** A model behind an OpenAI-compatible API, for commands. */

import type { AgentConfig } from "../config/schema.ts";
import { ChatClient } from "../core/chat_api/chat_client.ts";
import { readKey } from "../core/chat_api/endpoint.ts";
import type { Clock } from "../core/clock.ts";
import { ServiceError } from "../core/errors.ts";

/** The limit of one request to a hosted model, and how often it is repeated. */
export const REQUEST_TIMEOUT_MS = 300_000, MAX_RETRIES = 4;

/** The sections of `[agent]` that name a hosted model. */
type HostedSection = "scenario_generation" | "collect_api";

/**
 * Opens the model of a section, whose address is that of the judge where the section has none. Nothing is sent yet.
 *
 * @throws {ServiceError} `config_invalid` without the section, an address, or the key in the environment.
 */
export function hostedModel(
  agent: AgentConfig,
  section: HostedSection,
  { seed, clock, doing }: { seed: number; clock: Clock; doing: string },
): ChatClient {
  const endpoint = agent[section];
  const refuse = (reason: string) => new ServiceError("config_invalid", `Cannot ${doing}: ${reason}`);
  if (!endpoint) throw refuse(`the configuration has no [agent.${section}]; name a model there`);
  const base_url = endpoint.base_url ?? agent.judge?.base_url;
  if (base_url === undefined) throw refuse(`agent.${section}.base_url is missing, and there is no judge's`);
  if (URL.parse(base_url) === null) throw refuse(`agent.${section}.base_url is no address`);
  const name = `the model of [agent.${section}]`;
  const key = readKey(endpoint.api_key_env, { what: name, setting: `agent.${section}.api_key_env` });
  return new ChatClient({
    ...{ base_url, model: endpoint.model, key, seed, clock, name, code: "model_failed" },
    ...{ timeout_ms: REQUEST_TIMEOUT_MS, max_retries: MAX_RETRIES },
  });
}
