/** The schedules of rollouts with slow tools, on a device whose time is calculated: no time is measured. */

import assert from "node:assert/strict";
import { setImmediate } from "node:timers";
import { testScenarios, TextChat } from "../../agent/rollout/rollout_fake.ts";
import { ManualClock } from "../../core/clock_fake.ts";
import type { EngineClient } from "../../trainer/protocol/client.ts";
import type { EngineMethods, TokenBlock } from "../../trainer/protocol/protocol.ts";
import {
  callingChat,
  idleShare,
  MEMBERS,
  type Rolled,
  type Schedule,
  slowRollout,
  Watch,
} from "./slow_rollouts.ts";

/** Steps of a block on software adapters. */
const BLOCK_STEPS = 4;

/** Milliseconds of a decode step with up to 8, 16 and 24 rows, about those of a software adapter. */
const STEP_MS = [9.6, 13, 15];

/** Milliseconds of a pass over given tokens: for itself, and for each of them. */
const PREFILL_MS = [9.5, 0.3] as const;

/** A clock that jumps to the next sleeper when nothing else is to be done. */
class JumpingClock extends ManualClock {
  readonly #due = new Set<{ ms: number }>();

  override async sleep(delay_ms: number, signal?: AbortSignal): Promise<void> {
    const due = { ms: this.monotonic_ms() + delay_ms };
    this.#due.add(due);
    try {
      await super.sleep(delay_ms, signal);
    } finally {
      this.#due.delete(due);
    }
  }

  async run<T>(work: Promise<T>): Promise<T> {
    let is_done = false;
    const mark = () => void (is_done = true);
    work.then(mark, mark);
    while (true) {
      // Longer than the engine waits for requests.
      await idle(8);
      if (is_done) return await work;
      const next = Math.min(...[...this.#due].map(({ ms }) => ms));
      assert.ok(next < Infinity, "somebody sleeps while the rollout waits");
      await this.advance(next - this.monotonic_ms());
    }
  }
}

/** Lets others do what is left to do at this time: requests reach the engine within 4 turns of the event loop. */
async function idle(turns = 4): Promise<void> {
  for (let turn = 0; turn < turns; turn++) await new Promise<void>((resolve) => setImmediate(resolve));
}

/** A generation, with the tokens that must run before it samples. */
interface Work {
  given: number;
  left: number;
  done: () => void;
}

/** An engine as the batcher schedules one: a pass over given tokens, if there are any, or a block; all that generate sample. */
class CalculatedEngine {
  readonly #work: Work[] = [];
  readonly #given = new Map<number, number>();
  #next = 1;
  #is_running = false;

  /** @param slowness Multiplies all times. */
  constructor(readonly clock: JumpingClock, readonly slowness: number) {}

  get client(): EngineClient {
    const generate = (request: EngineMethods["sequence_generate"]["request"]) => this.#generate(request);
    return {
      newSequence: () => this.#next++,
      call: (method: string, request: { sequence: number; tokens?: number[] }) => {
        const { sequence, tokens = [] } = request;
        if (method.startsWith("sequence_")) {
          this.#given.set(sequence, (this.#given.get(sequence) ?? 0) + tokens.length);
        }
        return Promise.resolve(null);
      },
      generate,
    } as unknown as EngineClient;
  }

  async *#generate(
    { sequence, max_tokens }: EngineMethods["sequence_generate"]["request"],
  ): AsyncGenerator<TokenBlock> {
    const given = this.#given.get(sequence)!, { promise, resolve } = Promise.withResolvers<void>();
    this.#given.set(sequence, 0);
    this.#work.push({ given, left: max_tokens, done: resolve });
    void this.#run();
    await promise;
    const tokens = Array<number>(max_tokens).fill(1);
    yield { sequence, tokens, logprobs: tokens.map(() => -1), stop: "max_tokens" };
  }

  async #run(): Promise<void> {
    if (this.#is_running) return;
    this.#is_running = true;
    while (true) {
      // Requests of this moment are in one batch.
      await idle();
      if (this.#work.length === 0) break;
      await this.#runStep();
    }
    this.#is_running = false;
  }

  async #runStep(): Promise<void> {
    const rows = [...this.#work], given = rows.reduce((sum, row) => sum + row.given, 0);
    const [pass, token] = PREFILL_MS, step = STEP_MS[Math.ceil(rows.length / 8) - 1]!;
    const steps = given > 0 ? 1 : Math.min(BLOCK_STEPS, Math.max(...rows.map(({ left }) => left)));
    // In a pass with given tokens each other row has one token. Then all of them sample one.
    const others = rows.filter((row) => row.given === 0).length;
    const ms = given > 0 ? pass + token * (given + others) : steps * step;
    await this.clock.sleep(this.slowness * ms);
    for (const row of rows) {
      row.given = 0;
      row.left -= steps;
      if (row.left > 0) continue;
      this.#work.splice(this.#work.indexOf(row), 1);
      row.done();
    }
  }
}

function rollOut(schedule: Schedule, slowness: number, { groups, turns }: { groups: number; turns: number }) {
  const clock = new JumpingClock(), watch = new Watch(new CalculatedEngine(clock, slowness).client, clock);
  const scenarios = testScenarios(...Array.from({ length: groups }, (_, i) => `s${i}`));
  const chat = callingChat(new TextChat());
  return clock.run(slowRollout({ watch, clock, chat, scenarios, schedule, turns }));
}

for (const [slowness, how] of [[1, "a fast"], [4, "a slow"]] as const) {
  for (const size of [{ groups: 1, turns: 16 }, { groups: 2, turns: 8 }, { groups: 4, turns: 4 }]) {
    const name =
      `${size.groups} groups of ${MEMBERS} attempts with ${size.turns} slow calls on ${how} engine: ` +
      "idle for less than a fifth of lockstep's share, and done sooner";
    Deno.test(name, async () => {
      const [ours, lockstep]: Rolled[] = [
        await rollOut("continuous", slowness, size),
        await rollOut("lockstep", slowness, size),
      ];
      assert.deepEqual(ours!.tokens, lockstep!.tokens, "the same episodes");
      assert.equal(ours!.calls, size.groups * MEMBERS * size.turns);
      const shares = [idleShare([ours!]), idleShare([lockstep!])];
      assert.ok(shares[0]! < shares[1]! / 5, `${shares}`);
      assert.ok(ours!.seconds < lockstep!.seconds, `${ours!.seconds} s, in lockstep ${lockstep!.seconds} s`);
    });
  }
}
