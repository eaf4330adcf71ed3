/** Adds the tools of other hosts to environments. */

import type { ToolFunction } from "../../core/chat.ts";
import type { Clock } from "../../core/clock.ts";
import { ServiceError } from "../../core/errors.ts";
import type { Scenario } from "../../data/scenario.ts";
import {
  combineTools,
  type HostOfTools,
  routeCalls,
  type ToolCatalog,
  type ToolHost,
  type ToolHostFactory,
} from "../tools/tool_host.ts";
import type { Environment, EnvironmentFactory, OpenOptions } from "./environment.ts";
import { unlessAborted } from "./unless_aborted.ts";

/** The time that a host has to list its tools, its start included. */
export const LIST_TIMEOUT_MS = 30_000;

/** A host's factory with its tools. */
interface ListedHost {
  factory: ToolHostFactory;
  tools: readonly ToolFunction[];
}

/**
 * The same environments with the tools of `hosts` after their own in every catalogue. A call goes to the host that has
 * its tool. Hosts are listed once, so that the tools of a run do not change. An attempt opens all hosts or none.
 *
 * The catalogue of a scenario is refused with `config_invalid` when two tools have one name, prefixes included, and with
 * `environment_failed` when a host cannot list its tools within {@link LIST_TIMEOUT_MS}.
 */
export function withToolHosts(
  environments: EnvironmentFactory,
  hosts: readonly ToolHostFactory[],
  clock: Clock,
): EnvironmentFactory {
  return hosts.length === 0 ? environments : new HostedEnvironments(environments, hosts, clock);
}

class HostedEnvironments implements EnvironmentFactory {
  readonly call_timeout_ms: number;
  readonly grading_advice: string;
  readonly #environments: EnvironmentFactory;
  readonly #hosts: readonly ToolHostFactory[];
  readonly #clock: Clock;
  /** Aborts when the factory closes. */
  readonly #life = new AbortController();
  #listed: Promise<ListedHost[]> | null = null;

  constructor(environments: EnvironmentFactory, hosts: readonly ToolHostFactory[], clock: Clock) {
    this.call_timeout_ms = environments.call_timeout_ms;
    this.grading_advice = environments.grading_advice;
    this.#environments = environments;
    this.#hosts = hosts;
    this.#clock = clock;
  }

  coverage(scenario: Scenario) {
    return this.#environments.coverage(scenario);
  }

  async check(signal: AbortSignal) {
    await this.#environments.check?.(signal);
  }

  async catalog(scenario: Scenario, signal: AbortSignal) {
    const own = await this.#environments.catalog(scenario, signal);
    return extended(own, await this.#list(signal));
  }

  async catalogs(signal: AbortSignal) {
    const own = await this.#environments.catalogs(signal), listed = await this.#list(signal);
    return own.map((catalog) => extended(catalog, listed));
  }

  async open(scenario: Scenario, options: OpenOptions): Promise<Environment> {
    const { signal } = options;
    const { tools: own } = await this.#environments.catalog(scenario, signal);
    const listed = await this.#list(signal);
    const opened: HostOfTools[] = [];
    const close = once(() => closeAll(opened.map(({ host }) => host)));
    try {
      for (const { factory, tools } of listed) {
        const opening = attempt(`open ${factory.name}`, () => factory.open(signal));
        opened.push({ prefix: factory.prefix, tools, host: await openedInTime(opening, signal) });
      }
      // The environment opens last, because a place for it may be scarce.
      const environment = await openedInTime(this.#environments.open(scenario, options), signal);
      opened.push({ tools: own, host: environment });
      return {
        observation: environment.observation,
        call: routeCalls(opened),
        grade: (signal) => environment.grade(signal),
        state: (signal) => environment.state(signal),
        close,
      };
    } catch (error) {
      await close();
      throw error;
    }
  }

  readonly close = once(async () => {
    this.#life.abort(new ServiceError("cancelled", "Cannot go on: the tool hosts are closed"));
    await closeAll([this.#environments, ...this.#hosts]);
  });

  /** Lists all hosts, at the first call; a failure is not kept. The caller's signal ends only its own wait. */
  #list(signal: AbortSignal): Promise<ListedHost[]> {
    this.#listed ??= Promise.all(this.#hosts.map(async (factory) => ({
      factory,
      tools: await attempt(`list the tools of ${factory.name}`, () => this.#listInTime(factory)),
    }))).catch((error) => {
      this.#listed = null;
      throw error;
    });
    return unlessAborted(this.#listed, signal);
  }

  /** Also ends the wait for a host that ignores its signal. */
  async #listInTime(factory: ToolHostFactory): Promise<readonly ToolFunction[]> {
    const late = new AbortController(), done = new AbortController();
    const end = () => late.abort(new Error(`it gave no answer within ${LIST_TIMEOUT_MS / 1000} s`));
    this.#clock.sleep(LIST_TIMEOUT_MS, done.signal).then(end, () => {});
    const ended = AbortSignal.any([this.#life.signal, late.signal]);
    try {
      return await unlessAborted(factory.list(ended), ended);
    } finally {
      done.abort();
    }
  }
}

function extended<C extends ToolCatalog>(catalog: C, listed: readonly ListedHost[]): C {
  const own = { name: `the toolset ${JSON.stringify(catalog.name)}`, tools: catalog.tools };
  const others = listed.map(({ factory: { name, prefix }, tools }) => ({ name, prefix, tools }));
  return { ...catalog, tools: combineTools([own, ...others]) };
}

/** @throws {ServiceError} `environment_failed`, or the host's own. */
async function attempt<T>(what: string, run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (error) {
    if (error instanceof ServiceError) throw error;
    const reason = error instanceof Error ? error.message : String(error);
    throw new ServiceError("environment_failed", `Cannot ${what}: ${reason}`, {}, { cause: error });
  }
}

/** A host that opens after an abort is closed at once. */
async function openedInTime<H extends ToolHost>(opening: Promise<H>, signal: AbortSignal): Promise<H> {
  try {
    return await unlessAborted(opening, signal);
  } catch (error) {
    opening.then((late) => late.close()).catch(() => {});
    throw error;
  }
}

/** Closes all, also after one fails. */
async function closeAll(parts: readonly { close(): Promise<void> }[]): Promise<void> {
  await Promise.allSettled(parts.map((part) => part.close()));
}

/** The same function, which acts only at its first call. */
function once(run: () => Promise<void>): () => Promise<void> {
  let done: Promise<void> | null = null;
  return () => done ??= run();
}
