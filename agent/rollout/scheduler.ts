/** Continuous batching: when an episode ends, the next member of any group takes its slot at once. */

import { assert, ServiceError } from "../../core/errors.ts";
import type { Scenario } from "../../data/scenario.ts";
import { gradeGroup } from "../grading/grade_group.ts";
import { type Group, taskOf } from "../trajectory/group.ts";
import { type EndedEpisode, type EpisodePrompt, runEpisode } from "./episode.ts";
import { promptMessages, sharedPrompt } from "./prompts.ts";
import type { RolloutOptions } from "./rollout_options.ts";

/** The running members of one scenario. */
interface GroupInProgress {
  index: number;
  scenario: Scenario;
  /** Rendered and prefilled by the first member that gets a slot. */
  prompt: Promise<EpisodePrompt> | null;
  episodes: EndedEpisode[];
  left: number;
  /** Resolves when all of its episodes are graded. */
  graded: PromiseWithResolvers<Group>;
}

/** Progress of a rollout: the number of episodes that have ended so far, or a complete group. */
type RolloutProgress = { ended: number } | { group: Group };

/**
 * Runs `group_size` episodes of every scenario, at most `concurrent_rollouts` at a time, in the order (scenario,
 * member). Yields the groups in the scenarios' order, each as soon as it and all earlier ones are complete. In between
 * it yields the number of ended episodes whenever it has grown. A group is graded as soon as all of its episodes have
 * ended; status and advantages are computed later. Leaving the loop early or aborting the signal cancels every episode
 * and closes its sequences and environments before this returns.
 *
 * @throws {ServiceError} `cancelled`; errors of the engine or the template; `data_invalid` for a scenario whose toolset
 * is not offered; `judge_failed` when a failing grader fails the run.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 * import { ScriptedEngine } from "../../trainer/engine/scripted_engine_fake.ts";
 * import { callText, testRollout, turnTokens } from "./rollout_fake.ts";
 *
 * // The scripted engine needs no GPU; this one calls the tool `end` in every turn.
 * const engine = new ScriptedEngine({ script: () => turnTokens(callText("end")) });
 * const progress = await Array.fromAsync(rolloutProgress(testRollout(engine.client, { group_size: 2 })));
 * const groups = progress.flatMap((item) => "group" in item ? [item.group] : []);
 * assert.deepEqual(groups.map(({ scenario, members }) => [scenario, members.length]), [["s", 2]]);
 * ```
 */
export async function* rolloutProgress(options: RolloutOptions): AsyncGenerator<RolloutProgress, void> {
  const scheduler = new Scheduler(options);
  const running = scheduler.run();
  running.catch(() => {});
  let reported = 0;
  try {
    for (const { graded } of scheduler.groups) {
      for (let group: Group | void = undefined; !group;) {
        group = await Promise.race([graded.promise, scheduler.endedMoreThan(reported), scheduler.failed]);
        if (scheduler.ended > reported) yield { ended: reported = scheduler.ended };
        if (group) yield { group };
      }
    }
    await running;
  } finally {
    scheduler.stop();
    await running.catch(() => {});
  }
}

class Scheduler {
  readonly groups: GroupInProgress[];
  readonly #abort = new AbortController();
  readonly #options: RolloutOptions;
  readonly #failure = Promise.withResolvers<never>();
  readonly #started_ms: number;
  readonly #grading: Promise<void>[] = [];
  #next = 0;
  #ended = 0;
  #more = Promise.withResolvers<void>();

  constructor(options: RolloutOptions) {
    const { signal, scenarios, group_size, clock } = options;
    assert(group_size > 0 && options.concurrent_rollouts > 0, "a group and the slots hold at least one");
    this.#options = { ...options, signal: this.#abort.signal };
    this.#started_ms = clock.monotonic_ms();
    const cancel = () => this.#fail(new ServiceError("cancelled", "Cannot finish the rollouts: cancelled"));
    if (signal.aborted) cancel();
    signal.addEventListener("abort", cancel, { once: true, signal: this.#abort.signal });
    this.#failure.promise.catch(() => {});
    this.groups = scenarios.map((scenario, index) => ({
      index,
      scenario,
      prompt: null,
      episodes: [],
      left: group_size,
      graded: Promise.withResolvers<Group>(),
    }));
  }

  /** Rejects with the first error of any episode. */
  get failed(): Promise<never> {
    return this.#failure.promise;
  }

  /** Episodes that have ended. */
  get ended(): number {
    return this.#ended;
  }

  /** Resolves as soon as more than `count` episodes have ended. */
  async endedMoreThan(count: number): Promise<void> {
    while (this.#ended <= count) await this.#more.promise;
  }

  stop(): void {
    this.#abort.abort();
  }

  /** Fills every slot until no member is left. */
  async run(): Promise<void> {
    const { group_size, concurrent_rollouts } = this.#options;
    const jobs = this.groups.length * group_size;
    const slot = async () => {
      while (this.#next < jobs && !this.#abort.signal.aborted) {
        const job = this.#next++;
        await this.#member(this.groups[Math.floor(job / group_size)]!, job % group_size);
      }
    };
    const slots = Array.from({ length: Math.min(concurrent_rollouts, jobs) }, async () => {
      try {
        await slot();
      } catch (error) {
        this.#fail(error);
      }
    });
    await Promise.all(slots);
    await Promise.all(this.#grading);
    await Promise.all(this.groups.filter((group) => group.left > 0).map((group) => this.#closePrompt(group)));
  }

  async #member(group: GroupInProgress, member: number): Promise<void> {
    const queue_ms = this.#options.clock.monotonic_ms() - this.#started_ms;
    group.prompt ??= this.#openPrompt(group.scenario);
    const prompt = await group.prompt;
    const { scenario } = group;
    group.episodes[member] = await runEpisode({
      ...{ scenario, group: group.index, member, prompt, queue_ms },
      rollout: this.#options,
    });
    this.#ended++;
    this.#more.resolve();
    this.#more = Promise.withResolvers();
    if (--group.left > 0) return;
    await this.#closePrompt(group);
    // Grading does not occupy a slot.
    this.#grading.push(this.#grade(group, prompt).catch((error) => this.#fail(error)));
  }

  async #grade({ index, scenario, episodes, graded }: GroupInProgress, prompt: EpisodePrompt): Promise<void> {
    const { signal } = this.#abort;
    if (signal.aborted) return;
    const { clock, update, graders, settings: { judge_failure } } = this.#options;
    const { name, version, tools } = prompt.catalog;
    const shared = sharedPrompt(prompt, episodes);
    const group: Group = {
      update,
      group: index,
      scenario: scenario.id,
      line: scenario.line,
      task: taskOf(scenario),
      toolset: { name, version },
      tools,
      prompt_messages: shared.messages,
      prompt_tokens: shared.tokens,
      graded_by: null,
      measures: {},
      status: "kept",
      members: episodes.map(({ trajectory }) => trajectory),
    };
    const evidence = episodes.map((episode) => episode.evidence);
    await gradeGroup(group, { scenario, graders, evidence, judge_failure, clock, signal });
    graded.resolve(group);
  }

  async #openPrompt(scenario: Scenario): Promise<EpisodePrompt> {
    const { chat, engine, environment, settings, adapter, signal } = this.#options;
    const catalog = await environment.catalog(scenario, signal);
    const messages = promptMessages(scenario, settings.system_suffix);
    const tokens = chat.promptTokens(messages, catalog.tools);
    if (tokens.length >= settings.max_trajectory_tokens) return { messages, tokens, catalog, sequence: null };
    const sequence = engine.newSequence();
    await engine.call("sequence_open", { sequence, adapter, parent: null, tokens });
    return { messages, tokens, catalog, sequence };
  }

  async #closePrompt(group: GroupInProgress): Promise<void> {
    const prompt = await group.prompt?.catch(() => null);
    const sequence = prompt?.sequence ?? null;
    if (sequence === null) return;
    // If the engine refuses this it is gone, and another error reports that.
    await this.#options.engine.call("sequence_close", { sequence }).catch(() => {});
  }

  #fail(error: unknown): void {
    this.#failure.reject(error);
    this.#abort.abort();
  }
}
