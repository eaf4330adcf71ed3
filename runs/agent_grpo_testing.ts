/** Runs updates of agentic GRPO without a GPU or workers, and records their engine requests. */

import { testScenarios } from "../agent/rollout/rollout_fake.ts";
import type { Group } from "../agent/trajectory/group.ts";
import type { ResolvedAgent } from "../config/check/derive.ts";
import { ManualClock } from "../core/clock_fake.ts";
import type { EngineMethod, EngineMethods, TrainingSample } from "../trainer/protocol/protocol.ts";
import { AgentGrpo } from "./algorithms/agent_grpo/agent_grpo.ts";
import type { UpdateRequest } from "./algorithms/algorithm.ts";
import type { Metrics } from "./algorithms/step_metrics.ts";
import { testConfig } from "./config_testing.ts";
import { testAgentHost, type TestRunOptions } from "./run_fake.ts";
import type { AgentHost } from "./session/agent_host.ts";

type TrainRequest = EngineMethods["train_step"]["request"];
type ScoreRequest = EngineMethods["score"]["request"];

/** The engine requests to record. */
const RECORDED: EngineMethod[] = ["train_step", "score", "divergence", "sequence_generate"];

const lora = { rank: 8, alpha: 16, targets: ["q_proj" as const] };

export interface TestGrpoOptions extends Pick<TestRunOptions, "newEngine"> {
  /** Keys of `[agent]`. */
  change?: Partial<ResolvedAgent>;
  verify?: TestRunOptions["verify"];
  /** Receives an update's groups as the rollouts return them. */
  rolled_out?: (groups: Group[]) => void;
}

/** Runs the updates with these numbers, and returns the recorded engine requests. */
export async function testGrpo({ newEngine, change = {}, verify, rolled_out }: TestGrpoOptions) {
  const config = testConfig("/nowhere");
  // The bound has its own tests, and it scores again after every update.
  Object.assign(config.agent!, { max_update_kl: 0 }, change);
  const requests: { method: EngineMethod; request: unknown }[] = [];
  const engine = newEngine((method, request) => {
    if (RECORDED.includes(method)) requests.push({ method, request });
  });
  await engine.call("adapter_open", { adapter: "policy", source: { type: "init", lora, seed: 1 } });
  const clock = new ManualClock();
  const observed: { update: number; groups: readonly Group[]; metrics: Metrics }[] = [];
  const host = testAgentHost({ config, engine, clock, verify });
  const rollout: AgentHost["rollout"] = async function* (...request) {
    const groups = yield* host.rollout(...request);
    rolled_out?.(groups);
    return groups;
  };
  const algorithm = new AgentGrpo({
    config,
    agent: { ...host, rollout },
    engine,
    adapter: "policy",
    scenarios: testScenarios("ab", "cd", "ef", "gh", "ij"),
    heldout: null,
    clock,
    observe: (update, groups, { metrics }) =>
      Promise.resolve(void observed.push({ update, groups, metrics })),
  });
  const run = (
    update: number,
    examples_seen = (update - 1) * config.agent!.scenarios_per_update,
    more: Pick<UpdateRequest, "warn"> = {},
  ) =>
    algorithm.runUpdate({
      ...more,
      update,
      examples_seen,
      learningRate: (step) => 0.1 * (step + 1),
      signal: new AbortController().signal,
    });
  const of = <T>(method: EngineMethod) =>
    requests.filter((made) => made.method === method).map(({ request }) => request as T);
  return {
    run,
    engine,
    config,
    observed,
    trained: () => of<TrainRequest>("train_step"),
    diverged: () => of<EngineMethods["divergence"]["request"]>("divergence"),
    scored: () => of<ScoreRequest>("score"),
    generated: () => of<EngineMethods["sequence_generate"]["request"]>("sequence_generate"),
    order: () => requests.map(({ method }) => method).filter((method) => method !== "sequence_generate"),
  };
}

/** Identifies a sample. */
export const name = (sample: TrainingSample) => [...sample.tokens].join(" ");
