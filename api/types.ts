/**
 * The types of the HTTP API. Written by scripts/generate_types.ts from api/openapi.json: change a route's entry, then run
 * it again.
 */

/** Why a request was refused or failed. */
export interface Problem {
  /** problem_type_base of the server, a slash, and the kind. */
  type: `${string}/invalid-request` | `${string}/server-declared` | `${string}/unknown-catalog-id` | `${string}/insufficient-memory` | `${string}/unauthorized` | `${string}/forbidden-path` | `${string}/not-found` | `${string}/conflict` | `${string}/payload-too-large` | `${string}/unsupported-media-type` | `${string}/method-not-allowed` | `${string}/device-busy` | `${string}/timeout` | `${string}/not-implemented` | `${string}/internal`;
  title: string;
  status: number;
  detail: string;
  /** Equal to the header X-Trace-Id, and in every line of the log. */
  trace_id: string;
  errors: ProblemError[];
  /** Belongs to the type: insufficient-memory has one, others an empty one. */
  meta: InsufficientMemory | Record<string, never>;
  error?: OpenAiError;
}

/** What is wrong with a place of the request. */
export interface ProblemError {
  /** JSON pointer into the body; /path/<name> or /query/<name> for a parameter; empty for all of it. */
  pointer: string;
  code: "missing_field" | "unknown_field" | "invalid_value" | "out_of_range" | "unsupported_format" | "path_not_found" | "forbidden_path" | "unknown_catalog_id" | "needs_opt_in" | "override_conflict" | "conflict" | "unauthorized" | "not_found" | "server_declared";
  message: string;
  /** Only where there is a short answer. */
  hint?: string;
}

export interface InsufficientMemory {
  /** The bytes above the budgets; 0 when a single tensor is too large for the device. */
  overflow_bytes: number;
  /** 0 when the device does not tell the size of its memory: nothing is compared with it then. */
  vram_budget_bytes: number;
  ram_budget_bytes: number;
  /** The largest of the memory that is short. */
  dominant_posts: Array<{
    post: string;
    bytes: number;
  }>;
  /** Empty for a complete configuration. */
  levers_applied: Array<"micro_batch" | "gradient_checkpointing" | "chunked_cross_entropy" | "kv_f16" | "fewer_concurrent_rollouts" | "offload_optimizer">;
  /** Degradations, not yet allowed, that would make it fit. */
  unlocks: Array<"truncate_context">;
}

/** In the answers of the OpenAI-compatible routes. */
export interface OpenAiError {
  message: string;
  type: "invalid_request_error" | "authentication_error" | "server_error";
  /** The field of the first problem, with dots. */
  param: string | null;
  /** The code of the first problem, else the kind. */
  code: string;
}

export interface Health {
  status: "ok";
  version: string;
  uptime_seconds: number;
}

/** What this server and its machine have. */
export interface Capabilities {
  version: string;
  features: {
    ui: boolean;
    auth: boolean;
    serving_enabled: boolean;
    mcp: boolean;
    containers: boolean;
  };
  /** The one that a run would take stands first. */
  devices: Device[];
  budgets: {
    vram: Budget;
    ram: Budget;
  };
  algorithms: Array<"agent_grpo" | "sft" | "preference">;
  tensor_types: string[];
  architectures: string[];
  environments: {
    container: {
      available: boolean;
      reason: string | null;
    };
    local: boolean;
    http: boolean;
  };
  limits: {
    max_body_bytes: number;
    max_dataset_bytes: number;
    max_concurrent_runs: number;
  };
}

export interface Device {
  name: string;
  /** The WebGPU implementation. */
  webgpu: "deno" | "dawn";
  /** Why it is this implementation. */
  webgpu_reason: string;
  backend: string;
  driver: string;
  features: string[];
  /** The forms of kernels that are not used, because the driver does not compile them, computes them wrong, or gives them other bits than those that they must have. Only GPUs are tested. */
  left_out: string[];
  limits: { [name: string]: number };
  /** Null where the driver does not tell. */
  vram_bytes: number | null;
  software: boolean;
}

export interface Budget {
  /** As the configuration has it. */
  requested: string | number;
  total_bytes: number | null;
  effective_bytes: number | null;
}

export interface OpenApi {
  openapi: string;
  info: {
    title: string;
    version: string;
    description: string;
    license: {
      name: string;
      identifier: string;
    };
  };
  servers: Array<{
    url: string;
  }>;
  security: Array<{ [name: string]: string[] }>;
  paths: { [name: string]: { [name: string]: JsonValue } };
  components: { [name: string]: { [name: string]: JsonValue } };
}

/** Any JSON value. */
export type JsonValue = unknown;

export interface Defaults {
  config: ConfigDefault[];
  recipe: {
    /** Updates of agent_grpo without a budget. */
    updates: number;
    /** A recipe always has checkpoints. */
    checkpoint: true;
    /** When a recipe exports trajectories. */
    observe: string;
  };
  observe_target_updates: {
    default: number;
    /** Of this server. */
    value: number;
    rule: string;
  };
}

export interface ConfigDefault {
  /** Dotted; `[]` follows the name of a list of tables. */
  key: string;
  type: string;
  /** Null for a key that a rule derives, or that has to be given. */
  default: JsonValue;
  /** How a key without a default is derived. */
  rule: string | null;
  required: boolean;
  description: string;
}

/** What a run would be and need. */
export interface Plan {
  /** The resolved configuration by catalogue ids. */
  config: { [name: string]: unknown };
  /** Where each value of the configuration comes from, by dotted key. */
  sources: { [name: string]: "default" | "derived" | "measured" | "override" };
  memory: {
    /** The largest first. Those whose name begins with host_ lie in the machine's memory. */
    posts: Array<{
      post: string;
      bytes: number;
    }>;
    /** Of the posts on the device. */
    peak_bytes: number;
    /** Of the posts in the machine's memory, which with a software adapter are all of them. */
    host_peak_bytes: number;
    vram_budget_bytes: number | null;
    ram_budget_bytes: number;
  };
  levers_applied: Array<"micro_batch" | "gradient_checkpointing" | "chunked_cross_entropy" | "kv_f16" | "fewer_concurrent_rollouts" | "offload_optimizer">;
  levers: Array<{
    lever: "micro_batch" | "gradient_checkpointing" | "chunked_cross_entropy" | "kv_f16" | "fewer_concurrent_rollouts" | "offload_optimizer";
    saved_bytes: number;
    time_factor: number;
  }>;
  schedule: {
    tokens_per_update: number;
    /** Null when time limits them. */
    updates: number | null;
    seconds_per_update: number | null;
    eta_seconds: number | null;
    calibrated: boolean;
  };
  template_probe: TemplateProbe;
  warnings: Warning[];
}

export interface TemplateProbe {
  /** Whether the render of n + 1 messages extends the render of n, with tools and without. */
  prefix_stable: boolean;
  /** The same within one question: calls and results only. */
  tool_loop_stable: boolean;
  /** Whether the thinking of earlier turns stays; null when the template renders none. */
  keeps_thinking: boolean | null;
  /** Begin tokens in a prompt; more than 1 is an error. */
  bos_count: number;
  tool_call_format: "hermes" | "llama3_json" | "mistral" | "none";
  /** Whether a rendered call is parsed as it was. */
  tool_call_round_trip: boolean;
  /** The token that ends a turn; null when a model could never learn to stop. */
  turn_end: string | null;
  /** The failures of the template. */
  problems: string[];
}

/** A remark on a request that succeeds. */
export interface Warning {
  code: "clip_range_for_level" | "template_not_prefix_stable" | "budget_changed_on_fork" | "group_too_small" | "judge_only_reward" | "mutable_image_tag" | "kl_reference_is_base" | "no_heldout" | "no_checkpoint" | "software_device" | "vram_unknown" | "lever_applied" | "context_beyond_training" | "context_truncated" | "rows_truncated" | "no_end_signal";
  /** Dotted key; absent when it concerns the entire request. */
  field?: string;
  message: string;
}

/** The short form of a configuration. */
export interface Recipe {
  /** The algorithm. */
  recipe: "agent_grpo" | "sft" | "preference";
  /** Path of a GGUF file in path_roots. */
  model: string;
  /** The data, traces of sft or pairs of preference: a path or a dataset's id. */
  data?: string;
  /** The data, scenarios of agent_grpo: a path or a dataset's id. */
  scenarios?: string;
  objective?: Objective;
  /** How long to train; the first limit that is reached ends the run. */
  budget?: {
    updates?: number;
    epochs?: number;
    minutes?: number;
  };
  /** Further keys of the configuration by dotted name, such as `training.lr`. */
  params?: Record<string, unknown>;
  /** Degradations of the result that are allowed, to make the run possible. */
  allow?: Array<"truncate_context" | "exceed_train_context">;
  /** How much memory the run may take, within the server's limits. */
  limits?: {
    /** How much of the device's memory runs may use. */
    vram?: string | number;
    /** How much of the machine's memory runs may use. */
    ram?: string | number;
  };
  /** The run's name. */
  name?: string;
}

/** The sources of rewards for attempts, and the tools of attempts. */
export interface Objective {
  /** The id of a reward in the server's catalogue; nothing else is accepted. */
  reward?: string | { [name: string]: unknown } | JsonValue[];
  /** The id of a judge in the server's catalogue; nothing else is accepted. */
  judge?: string | { [name: string]: unknown } | JsonValue[];
  /** The id of an environment in the server's catalogue; nothing else is accepted. */
  environment?: string | { [name: string]: unknown } | JsonValue[];
  mcp_servers?: Array<string | { [name: string]: unknown } | JsonValue[]>;
}

export interface WholeConfiguration {
  /** A complete configuration, as GET /v1/config-schema describes it. */
  config: Record<string, unknown>;
  /** The run's name. */
  name?: string;
}

/** A run that continues from a checkpoint of another one, with some changes. */
export interface Fork {
  fork_from: ForkFrom;
  /** The algorithm. */
  recipe?: "agent_grpo" | "sft" | "preference";
  /** Path of a GGUF file in path_roots. */
  model?: string;
  /** The data, traces of sft or pairs of preference: a path or a dataset's id. */
  data?: string;
  /** The data, scenarios of agent_grpo: a path or a dataset's id. */
  scenarios?: string;
  objective?: Objective;
  /** How long to train; the first limit that is reached ends the run. */
  budget?: {
    updates?: number;
    epochs?: number;
    minutes?: number;
  };
  /** Further keys of the configuration by dotted name, such as `training.lr`. */
  params?: Record<string, unknown>;
  /** Degradations of the result that are allowed, to make the run possible. */
  allow?: Array<"truncate_context" | "exceed_train_context">;
  /** How much memory the run may take, within the server's limits. */
  limits?: {
    /** How much of the device's memory runs may use. */
    vram?: string | number;
    /** How much of the machine's memory runs may use. */
    ram?: string | number;
  };
  /** A complete configuration, as GET /v1/config-schema describes it. */
  config?: Record<string, unknown>;
  /** The run's name. */
  name?: string;
}

export interface ForkFrom {
  /** The parent's id. */
  run: string;
  /** One of its checkpoints; left out, the newest. */
  checkpoint?: string;
}

/** A fine-tuning: what it is, and how far. */
export interface Run {
  id: string;
  name: string;
  notes: string;
  tags: string[];
  algorithm: "agent_grpo" | "sft" | "preference";
  state: "queued" | "starting" | "running" | "pausing" | "paused" | "stopping" | "completed" | "cancelled" | "failed" | "interrupted";
  /** Why it is in this state; a failed run has error.reason here. */
  state_reason: string | null;
  /** RFC 3339, UTC. */
  created_at: string;
  started_at: string | null;
  ended_at: string | null;
  progress: {
    /** Finished updates. */
    update: number;
    /** Planned updates; null when time limits them. */
    updates: number | null;
    /** Finished optimiser steps. */
    step: number;
    eta_seconds: number | null;
    /** What its process does between two events, with the ended attempts or scored examples where it counts them; null without a process, and before it says so. */
    phase: {
      name: "rollouts" | "training" | "checkpoint" | "evaluation";
      done: number | null;
      total: number | null;
    } | null;
  };
  /** The resolved configuration without secrets; empty in view mode. */
  config: { [name: string]: unknown };
  /** As POST /v1/plan answers it; null in view mode. */
  plan: Plan | null;
  /** The run and checkpoint of which it is a fork. */
  parent: {
    run: string;
    checkpoint: string;
  } | null;
  /** Why it failed; null for a run that has not. */
  error: {
    reason: "max_dropped_fraction" | "loss_not_finite" | "out_of_memory" | "device_lost" | "environment_failed" | "judge_failed" | "data_invalid" | "internal";
    detail: string;
    update: number;
    trace_id: string | null;
  } | null;
  /** False once a wall-clock limit had an effect or a hosted service answered. */
  deterministic: boolean;
  /** The newest value of each metric. */
  last_metrics: { [name: string]: number };
}

export interface RunUpdate {
  /** The run's name. */
  name?: string;
  notes?: string;
  tags?: string[];
  /** A new learning rate; it takes effect at the next update. */
  training?: {
    lr: number;
  };
}

export interface Accepted {
  accepted: true;
  /** At the next boundary of the run, or at once. */
  takes_effect: "boundary" | "now";
}

export interface Cancel {
  /** now discards the update that is being trained; a second one ends the process. */
  at?: "boundary" | "now";
  /** Whether to write a checkpoint first. */
  checkpoint?: boolean;
}

export interface EvaluationResult {
  /** As requested. */
  checkpoint: string | null;
  /** Null for a loss on held-out rows. */
  pass_rate: Rate | null;
  reward_mean: number | null;
  /** Null for scenarios, and when it is not finite. */
  loss: number | null;
  perplexity: number | null;
  /** Other measured values, by metric name. */
  values: { [name: string]: number };
  /** Null for scenarios. */
  rows: {
    n: number;
    /** Rows that were cut at training.ctx. */
    truncated: number;
  } | null;
  /** Attempts that failed for reasons other than the model's, by reason. They have not passed. */
  failed: { [name: string]: number };
  /** The first of these. */
  failure: ScenarioFailure | null;
  /** The outcome of each held-out scenario. */
  scenarios: ScenarioOutcome[];
  /** The loss of each held-out row. */
  row_losses: RowLoss[];
  /** False when a wall-clock limit or a hosted service had an effect. */
  deterministic: boolean;
}

/** A mean over scenarios, with its 95 % interval. */
export interface Rate {
  rate: number;
  low: number;
  high: number;
  /** Scenarios. */
  n: number;
  attempts: number;
}

/** A failure of code that the run does not control. */
export interface ScenarioFailure {
  scenario: string;
  boundary: "prompt" | "tool" | "environment" | "reward" | "judge" | "infrastructure";
  message: string;
}

export interface ScenarioOutcome {
  scenario: string;
  attempts: number;
  passes: number;
  /** Null: failed, and not graded. */
  rewards: Array<number | null>;
  stop_reasons: string[];
}

export interface RowLoss {
  /** Its line in the file. */
  row: string;
  /** Null when it is not finite. */
  loss: number | null;
  /** Its trained tokens, or 1 for a pair. */
  weight: number;
}

export interface Evaluate {
  /** One of the run's checkpoints. Left out: the policy as it is; of a completed run its result. */
  checkpoint?: string;
  /** The most scenarios or rows. */
  limit?: number;
}

/** An assistant turn, with its tokens. */
export interface Generation {
  message: {
    role: "assistant";
    content: string;
    tool_calls?: Array<{
      id: string;
      type: "function";
      function: {
        name: string;
        arguments: Record<string, unknown>;
      };
    }>;
  };
  /** The sampled tokens, with the one that ends the turn. */
  token_ids: number[];
  /** Of each of these tokens, by the distribution it was sampled from; with temperature 0, by that of temperature 1. */
  logprobs: number[];
  /** stop: the model ended its turn; length: max_new_tokens or training.ctx did. */
  stop_reason: "stop" | "length";
  usage: {
    prompt_tokens: number;
    completion_tokens: number;
  };
}

/** A conversation that the policy of a run continues by a turn. */
export interface Generate {
  messages: Message[];
  /** The tools that the model may call; none is executed. */
  tools?: Tool[];
  /** At most what training.ctx leaves. */
  max_new_tokens: number;
  /** 0 takes the most probable token. */
  temperature: number;
  top_p: number;
  /** The same request with the same seed has one answer. */
  seed?: number;
  /** One of the run's checkpoints. Left out: the policy as it is; of a completed run its result. */
  checkpoint?: string;
  /** False: the base model answers. */
  adapter?: boolean;
}

export interface Message {
  role: "system" | "user" | "assistant" | "tool";
  content?: string | null;
  /** Thinking before the content. */
  reasoning_content?: string | null;
  tool_calls?: ToolCall[] | null;
  /** In a tool's message: the call that it answers. */
  tool_call_id?: string;
  name?: string;
}

export interface ToolCall {
  id?: string;
  type?: "function";
  function: {
    name: string;
    /** An object, or its JSON text. */
    arguments: string | Record<string, unknown>;
  };
}

/** A tool in the form of OpenAI or of the Model Context Protocol. */
export type Tool = {
  type: "function";
  function: {
    name: string;
    description?: string;
    parameters?: Record<string, unknown>;
  };
} | {
  name: string;
  description?: string;
  inputSchema?: Record<string, unknown>;
};

export interface EvaluationList {
  evaluations: Evaluation[];
  /** The cursor of the next page; null on the last one. */
  next_cursor: string | null;
}

export interface Evaluation {
  /** Counts the evaluations of the run. */
  n: number;
  /** The update before it. */
  update: number;
  time: string;
  /** Null for a loss on held-out rows. */
  pass_rate: Rate | null;
  reward_mean: number | null;
  /** Null for scenarios, and when it is not finite. */
  loss: number | null;
  perplexity: number | null;
  /** Other measured values, by metric name. */
  values: { [name: string]: number };
  /** Null for scenarios. */
  rows: {
    n: number;
    /** Rows that were cut at training.ctx. */
    truncated: number;
  } | null;
  /** Attempts that failed for reasons other than the model's, by reason. They have not passed. */
  failed: { [name: string]: number };
  /** The first of these. */
  failure: ScenarioFailure | null;
  /** The outcome of each held-out scenario. */
  scenarios: ScenarioOutcome[];
  /** The loss of each held-out row. */
  row_losses: RowLoss[];
}

/** What the metrics say about a run. */
export interface RunHealth {
  /** Critical ones first, then warnings, then those that hold; only those that can be measured. */
  rules: HealthRule[];
}

export interface HealthRule {
  rule: string;
  level: "ok" | "warning" | "critical";
  /** The measure of the rule, after the newest update. */
  value: number;
  threshold: number;
  /** The update since which the rule is broken; null when it holds. Of a long run only the first 50 and the last 1000 updates, and all evaluations, are looked at. */
  since_update: number | null;
  advice: string;
}

/** pass_rate is passes by attempts. */
export interface RunScenario {
  scenario: string;
  /** The scenario's line in its file. */
  line: number;
  attempts: number;
  passes: number;
  failed: number;
  pass_rate: number | null;
  reward_mean: number | null;
  /** In order. */
  updates: Array<{
    update: number;
    attempts: number;
    passes: number;
    failed: number;
    pass_rate: number | null;
    reward_mean: number | null;
  }>;
}

export interface RunScenarioGroups {
  scenario: string;
  /** The scenario's line in its file. */
  line: number;
  attempts: number;
  passes: number;
  failed: number;
  pass_rate: number | null;
  reward_mean: number | null;
  groups: RunScenarioGroup[];
  /** The cursor of the next page; null on the last one. */
  next_cursor: string | null;
  /** Lines of the files read for this answer that could not be read, such as one that a crash cut off. */
  skipped_lines: number;
}

export interface RunScenarioGroup {
  update: number;
  /** Position in the update, from 0. */
  group: number;
  time: string;
  status: "kept" | "degenerate" | "too_small" | "ungraded";
  attempts: number;
  passes: number;
  failed: number;
  pass_rate: number | null;
  reward_mean: number | null;
  texts_kept: boolean;
}

/** Runs beside each other. */
export interface RunComparison {
  runs: ComparedRun[];
  /** The resolved keys that differ. */
  configuration: Array<{
    key: string;
    /** Null where the key is not set. */
    values: JsonValue[];
  }>;
  metrics: AlignedMetric[];
  /** Each run but the first with the first. */
  comparisons: Comparison[];
  /** How these members of a comparison are computed, in words for people. */
  methods: {
    difference: string;
    outcomes: string;
    mcnemar: string;
  };
}

export interface ComparedRun {
  id: string;
  name: string;
  algorithm: string;
  state: "queued" | "starting" | "running" | "pausing" | "paused" | "stopping" | "completed" | "cancelled" | "failed" | "interrupted";
  /** The evaluation that is compared; null when the run has no such one. */
  evaluation: {
    n: number;
    update: number;
    metric: "eval/pass_rate" | "eval/loss";
    value: number;
  } | null;
}

/** A metric over the same updates for all runs. */
export interface AlignedMetric {
  name: string;
  points: Array<{
    first_update: number;
    last_update: number;
    /** The mean over these updates for each run, null without a sample. */
    values: Array<number | null>;
  }>;
}

/** The evaluation of a run against that of the first run. */
export interface Comparison {
  /** The first run of the request. */
  before: string;
  after: string;
  /** Null when nothing can be compared. */
  metric: "eval/pass_rate" | "eval/loss" | null;
  /** Keys that decide what an evaluation measures, and differ. */
  measured_differently: string[];
  /** Scenarios or rows of the two evaluations. Only common ones are compared. */
  examples: {
    common: number;
    only_before: number;
    only_after: number;
  };
  /** With its 95 % interval by the paired bootstrap; its ends are null when the examples do not determine it. */
  difference: {
    /** after − before, over the common examples. */
    difference: number;
    low: number | null;
    high: number | null;
    n: number;
  } | null;
  /** McNemar's exact test of the scenarios won and lost, two-sided. With several attempts at each it is the sign test. Null for losses. */
  mcnemar: {
    gained: number;
    lost: number;
    p_value: number;
  } | null;
  outcomes: Array<{
    /** The scenario, or the line of the row. */
    example: string;
    /** The share of passed attempts, or the loss. */
    before: number;
    after: number;
    /** win: after is better. */
    outcome: "win" | "loss" | "tie";
  }>;
  /** The limits of the comparison, in words. */
  note: string | null;
}

export interface CheckpointList {
  checkpoints: Checkpoint[];
  /** The cursor of the next page; null on the last one. */
  next_cursor: string | null;
}

export interface Checkpoint {
  name: string;
  update: number;
  step: number;
  created_at: string;
  size_bytes: number;
  /** Those of its update. */
  metrics: { [name: string]: number };
  /** Whether its evaluation is the best of these checkpoints. */
  best: boolean;
}

export interface StateEvent {
  /** The event's number in its stream, and its id. */
  seq: number;
  time: string;
  run: string;
  kind: "state";
  state: "queued" | "starting" | "running" | "pausing" | "paused" | "stopping" | "completed" | "cancelled" | "failed" | "interrupted";
  /** Why it failed; null otherwise. */
  reason: "max_dropped_fraction" | "loss_not_finite" | "out_of_memory" | "device_lost" | "environment_failed" | "judge_failed" | "data_invalid" | "internal" | null;
  detail: string | null;
  /** Finished updates. */
  update: number;
  /** The checkpoint from which it continues. */
  checkpoint: string | null;
}

export interface MetricsEvent {
  /** The event's number in its stream, and its id. */
  seq: number;
  time: string;
  run: string;
  kind: "metrics";
  update: number;
  step: number;
  /** By metric name; null for a value that is not finite. */
  values: { [name: string]: number | null };
}

export interface UpdateEvent {
  /** The event's number in its stream, and its id. */
  seq: number;
  time: string;
  run: string;
  kind: "update";
  update: number;
  /** Of the run; null when time limits them. */
  updates: number | null;
  step: number;
  reward_mean: number | null;
  loss: number | null;
  attempts: number;
  /** Attempts that were not trained on, by reason. */
  lost: { [name: string]: number };
  failure: ScenarioFailure | null;
  degenerate_groups: number;
  optimizer_steps: number;
  tokens_per_second: number;
  eta_seconds: number | null;
  groups: GroupSummary[];
}

export interface GroupSummary {
  scenario: string;
  /** The environment's reward of each attempt; null: it failed. */
  rewards: Array<number | null>;
  stop_reasons: string[];
  /** All members have the same reward. */
  degenerate: boolean;
  dropped: boolean;
}

export interface EvaluationEvent {
  /** The event's number in its stream, and its id. */
  seq: number;
  time: string;
  run: string;
  kind: "evaluation";
  /** Counts the evaluations of the run. */
  n: number;
  /** Finished updates. */
  update: number;
  /** Null for a loss on held-out rows. */
  pass_rate: Rate | null;
  reward_mean: number | null;
  /** Null for scenarios, and when it is not finite. */
  loss: number | null;
  perplexity: number | null;
  /** Null for scenarios. */
  rows: {
    n: number;
    /** Rows that were cut at training.ctx. */
    truncated: number;
  } | null;
  /** Attempts that failed for reasons other than the model's, by reason. They have not passed. */
  failed: { [name: string]: number };
  /** The first of these. */
  failure: ScenarioFailure | null;
  /** The outcome of each held-out scenario. */
  scenarios: ScenarioOutcome[];
  /** By metric name; null for a value that is not finite. */
  values?: { [name: string]: number | null };
  /** The loss of each held-out row, by its line: sum / weight; sum is null when it is not finite. */
  by_row?: { [name: string]: {
    sum: number | null;
    weight: number;
  } };
}

export interface CheckpointEvent {
  /** The event's number in its stream, and its id. */
  seq: number;
  time: string;
  run: string;
  kind: "checkpoint";
  name: string;
  update: number;
  step: number;
  size_bytes: number;
  /** By metric name; null for a value that is not finite. */
  metrics: { [name: string]: number | null };
  best: boolean;
}

export interface ArtifactEvent {
  /** The event's number in its stream, and its id. */
  seq: number;
  time: string;
  run: string;
  kind: "artifact";
  name: string;
  path: string;
  size_bytes: number;
  sha256: string;
  /** Of the adapter. */
  update: number;
}

export interface LogEvent {
  /** The event's number in its stream, and its id. */
  seq: number;
  time: string;
  run: string;
  kind: "log";
  level: "debug" | "info" | "warning" | "error";
  message: string;
}

export interface WarningEvent {
  /** The event's number in its stream, and its id. */
  seq: number;
  time: string;
  run: string;
  kind: "warning";
  code: "clip_range_for_level" | "template_not_prefix_stable" | "budget_changed_on_fork" | "group_too_small" | "judge_only_reward" | "mutable_image_tag" | "kl_reference_is_base" | "no_heldout" | "no_checkpoint" | "software_device" | "vram_unknown" | "lever_applied" | "context_beyond_training" | "context_truncated" | "rows_truncated" | "no_end_signal" | "heldout_is_training" | "unprotected_verification" | "device_lost" | "checkpoint_damaged" | "worse_than_best" | "no_valid_calls";
  field?: string;
  message: string;
}

export interface CommandEvent {
  /** The event's number in its stream, and its id. */
  seq: number;
  time: string;
  run: string;
  kind: "command";
  command: "pause" | "resume" | "cancel" | "checkpoint" | "evaluate" | "generate" | "set_lr" | "fork" | "delete";
  arguments: { [name: string]: string | number | boolean };
  takes_effect: "boundary" | "now";
}

export interface EndEvent {
  /** The event's number in its stream, and its id. */
  seq: number;
  time: string;
  run: string;
  kind: "end";
  state: "queued" | "starting" | "running" | "pausing" | "paused" | "stopping" | "completed" | "cancelled" | "failed" | "interrupted";
  /** Why it failed; null otherwise. */
  reason: "max_dropped_fraction" | "loss_not_finite" | "out_of_memory" | "device_lost" | "environment_failed" | "judge_failed" | "data_invalid" | "internal" | null;
  detail: string | null;
  /** Finished updates. */
  update: number;
  evaluation: EndEvaluation | null;
  /** Reward or loss as text. */
  plot: string | null;
  /** Its file; null unless the run completed. */
  adapter: string | null;
  adapter_update: number | null;
  /** The other of the last and the best adapter, when they differ. */
  other_adapter: {
    which: "last" | "best";
    update: number;
    path: string;
  } | null;
  deterministic: boolean;
}

/** The first, best and last evaluation of a run. */
export interface EndEvaluation {
  metric: "eval/pass_rate" | "eval/loss";
  before: EvaluationPoint;
  best: EvaluationPoint;
  after: EvaluationPoint;
  /** after - before on their common examples, with its 95 % interval. */
  difference: {
    difference: number;
    low: number | null;
    high: number | null;
    n: number;
  } | null;
  /** The last is worse than the best, beyond chance. */
  fell: boolean;
}

/** The objective's value after an update. */
export interface EvaluationPoint {
  update: number;
  value: number;
  pass_rate: Rate | null;
}

export interface RunCreatedEvent {
  /** The event's number in its stream, and its id. */
  seq: number;
  time: string;
  run: string;
  kind: "created";
  /** From then on; the last one of a deleted run. */
  state: "queued" | "starting" | "running" | "pausing" | "paused" | "stopping" | "completed" | "cancelled" | "failed" | "interrupted";
}

export interface RunStateEvent {
  /** The event's number in its stream, and its id. */
  seq: number;
  time: string;
  run: string;
  kind: "state";
  /** From then on; the last one of a deleted run. */
  state: "queued" | "starting" | "running" | "pausing" | "paused" | "stopping" | "completed" | "cancelled" | "failed" | "interrupted";
}

export interface RunDeletedEvent {
  /** The event's number in its stream, and its id. */
  seq: number;
  time: string;
  run: string;
  kind: "deleted";
  /** From then on; the last one of a deleted run. */
  state: "queued" | "starting" | "running" | "pausing" | "paused" | "stopping" | "completed" | "cancelled" | "failed" | "interrupted";
}

export interface GapEvent {
  /** The number of the newest event that is no longer kept. */
  seq: number;
  kind: "gap";
  /** Events that the client has not seen. */
  missing: number;
}

export interface Samples {
  samples: Sample[];
  next_since: number;
}

/** A value of a metric. */
export interface Sample {
  /** The number of the event. */
  seq: number;
  time: string;
  update: number;
  /** Optimiser steps so far. */
  step: number;
  name: string;
  value: number;
}

/** Metrics by parts of a run. */
export interface MetricBuckets {
  buckets: MetricBucket[];
  /** The newest event with metrics when the answer began. The buckets have it and all before it. */
  next_since: number;
}

export interface MetricBucket {
  name: string;
  /** The update of its first sample. */
  first_update: number;
  /** The update of its last sample. */
  last_update: number;
  /** The number of samples. */
  count: number;
  min: number;
  mean: number;
  max: number;
  /** The value of the last step. */
  last: number;
}

export interface TrajectoryUpdate {
  update: number;
  /** When it was written. */
  time: string;
  /** Optimiser steps of the run after this update. */
  step: number;
  groups: number;
  trajectories: number;
  /** Trajectories in a group's baseline; the others were lost. */
  kept: number;
  /** Attempts that completed with a total reward above 0. */
  passes: number;
  /** Attempts that failed for reasons other than the model's. */
  failed: number;
  /** Over all attempts; a failed one counts as 0. */
  reward_min: number | null;
  reward_mean: number | null;
  reward_max: number | null;
  deterministic: boolean;
  /** Whether messages, calls, results and tokens are kept. */
  texts_kept: boolean;
  /** All values of the update by name. */
  metrics: { [name: string]: number };
}

export interface FoundTrajectoryMember {
  /** Position in the group, from 0. */
  member: number;
  stop_reason: "completed" | "no_tool_call" | "submitted" | "max_turns" | "max_turn_tokens" | "max_trajectory_tokens" | "timeout" | "tool_failed" | "environment_failed" | "cancelled";
  /** kept: in the group's baseline; dropped: truncated; failed; group_dropped: with its group. */
  status: "kept" | "dropped" | "failed" | "group_dropped";
  failure: TrajectoryFailure | null;
  /** What an attempt that was not graded is attributed to; null when it was graded, or the run was stopped. */
  attribution: "model" | "budget" | "tool" | "environment" | "judge" | "infrastructure" | null;
  /** Of all fragments, prompts included. */
  tokens: number;
  /** Tokens that the model wrote. */
  action_tokens: number;
  /** From verification, reward command or judge. */
  terminal_reward: number | null;
  /** The rewards of all steps and the terminal one. */
  total_reward: number | null;
  /** Mean over the tokens that the model wrote. */
  advantage: number | null;
  malformed_calls: number;
  deterministic: boolean;
  /** Whether its container had ended before the attempt or its verification did. */
  sandbox_lost: boolean;
  timings: TrajectoryTimings;
  turns: number;
  judge_score: number | null;
  update: number;
  /** Position in the update, from 0. */
  group: number;
  scenario: string;
}

/** A failure of code that the run does not control. */
export interface TrajectoryFailure {
  boundary: "prompt" | "tool" | "environment" | "reward" | "judge" | "infrastructure";
  message: string;
}

export interface TrajectoryTimings {
  /** The wait for a slot. */
  queue_ms: number;
  /** The wait for the environment. */
  acquire_ms: number;
  generate_ms: number;
  tools_ms: number;
  /** Verification, reward command or judge. */
  reward_ms: number;
  /** From the first token of the prompt to the end of the last turn. */
  rollout_ms: number;
}

/** Where two attempts of a group part. */
export interface TrajectoryDiff {
  a: number;
  b: number;
  /** The turn of the first different token, from 0; null when it comes before the first turn, or all are equal. */
  turn: number | null;
  /** Position of the first different token; null when all are equal. */
  token: number | null;
  /** Null when the member has ended there. */
  a_token: TrajectoryToken | null;
  b_token: TrajectoryToken | null;
}

/** A token of an attempt, with the values of its training. */
export interface TrajectoryToken {
  id: number;
  text: string;
  /** prompt; model: sampled; tool: results; forced: put into the model's turn. */
  origin: "prompt" | "model" | "tool" | "forced";
  /** Whether the loss had a term for it. */
  trained: boolean;
  sampler_logprob: number | null;
  /** Of the policy before the update. */
  trainer_logprob: number | null;
  advantage: number | null;
  ratio: number | null;
  /** −1: clipped below, 1: clipped above, 0: not clipped. */
  clipped: -1 | 0 | 1 | null;
}

export interface TrajectoryGroupSummary {
  /** Position in the update, from 0. */
  group: number;
  scenario: string;
  /** The scenario's line in its file. */
  line: number;
  toolset: {
    name: string;
    version: string;
  } | null;
  /** The only source of the group's rewards. */
  graded_by: "environment" | "reward" | "judge" | null;
  /** degenerate: no advantages; too_small and ungraded: dropped. */
  status: "kept" | "degenerate" | "too_small" | "ungraded";
  members: TrajectoryMemberSummary[];
}

/** An attempt of a group, without its texts. */
export interface TrajectoryMemberSummary {
  /** Position in the group, from 0. */
  member: number;
  stop_reason: "completed" | "no_tool_call" | "submitted" | "max_turns" | "max_turn_tokens" | "max_trajectory_tokens" | "timeout" | "tool_failed" | "environment_failed" | "cancelled";
  /** kept: in the group's baseline; dropped: truncated; failed; group_dropped: with its group. */
  status: "kept" | "dropped" | "failed" | "group_dropped";
  failure: TrajectoryFailure | null;
  /** What an attempt that was not graded is attributed to; null when it was graded, or the run was stopped. */
  attribution: "model" | "budget" | "tool" | "environment" | "judge" | "infrastructure" | null;
  /** Of all fragments, prompts included. */
  tokens: number;
  /** Tokens that the model wrote. */
  action_tokens: number;
  /** From verification, reward command or judge. */
  terminal_reward: number | null;
  /** The rewards of all steps and the terminal one. */
  total_reward: number | null;
  /** Mean over the tokens that the model wrote. */
  advantage: number | null;
  malformed_calls: number;
  deterministic: boolean;
  /** Whether its container had ended before the attempt or its verification did. */
  sandbox_lost: boolean;
  timings: TrajectoryTimings;
  turns: number;
  judge_score: number | null;
}

export interface TrajectoryGroup {
  update: number;
  /** Position in the update, from 0. */
  group: number;
  scenario: string;
  /** The scenario's line in its file. */
  line: number;
  toolset: {
    name: string;
    version: string;
  } | null;
  /** The only source of the group's rewards. */
  graded_by: "environment" | "reward" | "judge" | null;
  /** degenerate: no advantages; too_small and ungraded: dropped. */
  status: "kept" | "degenerate" | "too_small" | "ungraded";
  texts_kept: boolean;
  /** What the scenario's line says; null without texts, when it is longer than a record may be, and in records of earlier programs. */
  task: TrajectoryTask | null;
  tools: TrajectoryTool[] | null;
  members: TrajectoryMember[];
  /** The cursor of the next page; null on the last one. */
  next_cursor: string | null;
  /** Lines of the files read for this answer that could not be read, such as one that a crash cut off. */
  skipped_lines: number;
}

/** The line of a group's scenario, besides its id. */
export interface TrajectoryTask {
  user: string;
  system: string | null;
  /** With the verify command and the rubric, if it has them. */
  metadata: Record<string, unknown>;
}

/** A tool as the model saw it. */
export interface TrajectoryTool {
  name: string;
  description: string;
  parameters: Record<string, unknown>;
}

/** An attempt of a group, with its texts. */
export interface TrajectoryMember {
  /** Position in the group, from 0. */
  member: number;
  stop_reason: "completed" | "no_tool_call" | "submitted" | "max_turns" | "max_turn_tokens" | "max_trajectory_tokens" | "timeout" | "tool_failed" | "environment_failed" | "cancelled";
  /** kept: in the group's baseline; dropped: truncated; failed; group_dropped: with its group. */
  status: "kept" | "dropped" | "failed" | "group_dropped";
  failure: TrajectoryFailure | null;
  /** What an attempt that was not graded is attributed to; null when it was graded, or the run was stopped. */
  attribution: "model" | "budget" | "tool" | "environment" | "judge" | "infrastructure" | null;
  /** Of all fragments, prompts included. */
  tokens: number;
  /** Tokens that the model wrote. */
  action_tokens: number;
  /** From verification, reward command or judge. */
  terminal_reward: number | null;
  /** The rewards of all steps and the terminal one. */
  total_reward: number | null;
  /** Mean over the tokens that the model wrote. */
  advantage: number | null;
  malformed_calls: number;
  deterministic: boolean;
  /** Whether its container had ended before the attempt or its verification did. */
  sandbox_lost: boolean;
  timings: TrajectoryTimings;
  /** One for each turn. */
  step_rewards: number[];
  judge: {
    score: number;
    explanation: string | null;
  } | null;
  verification: TrajectoryVerification | null;
  /** The entire conversation. */
  messages: TrajectoryMessage[] | null;
  turns: TrajectoryTurn[];
  /** The sequences that the model saw, as positions in the list of tokens: one with a prefix-stable template. */
  fragments: Array<{
    start: number;
    end: number;
  }> | null;
  spans: TokenSpan[] | null;
}

/** How the command that grades the attempt ended. */
export interface TrajectoryVerification {
  ended: "exited" | "killed" | "timeout";
  code: number | null;
  output: string | null;
  capped: boolean;
  /** The attempt had changed, removed or added a protected file or link, which was undone. Absent: it had not. */
  tampered?: boolean;
}

/** A message in the OpenAI form; arguments are objects. */
export interface TrajectoryMessage {
  role: "system" | "user" | "assistant" | "tool";
  content: string;
  reasoning_content?: string;
  tool_calls?: Array<{
    id?: string;
    type: "function";
    function: {
      name: string;
      arguments: Record<string, unknown>;
    };
  }>;
  /** In a tool's message: the call that it answers. */
  tool_call_id?: string;
  name?: string;
}

/** An assistant turn and the results of its calls. */
export interface TrajectoryTurn {
  turn: number;
  text: string | null;
  calls: TrajectoryCall[] | null;
  /** Sum of its calls' rewards. */
  reward: number;
  /** The advantage of the turn's tokens. */
  advantage: number | null;
  /** Position of the model's first token of this turn. */
  start: number | null;
  end: number | null;
  /** Since the first token of the prompt. */
  started_ms: number;
  generate_ms: number;
  tools_ms: number;
}

/** A tool call and its result. */
export interface TrajectoryCall {
  /** Position among the turn's calls. */
  index: number;
  id: string;
  name: string;
  /** Null when the call was malformed. */
  arguments: Record<string, unknown> | null;
  /** The model's text of a malformed call. */
  text: string | null;
  malformed: boolean;
  /** The model's view of the result; null without one. */
  result: string | null;
  reward: number | null;
  done: boolean;
  failure: TrajectoryFailure | null;
  exec_ms: number;
}

/** Consecutive tokens of one origin, as positions in the member's list of tokens. */
export interface TokenSpan {
  /** Position of its first token. */
  start: number;
  /** Position after its last token. */
  end: number;
  origin: "prompt" | "model" | "tool" | "forced";
}

export interface ArtifactList {
  artifacts: Artifact[];
  /** The cursor of the next page; null on the last one. */
  next_cursor: string | null;
}

export interface Artifact {
  /** adapter: the adapter as GGUF; adapter_peft: the adapter as a PEFT folder; config: the resolved configuration by ids, which can be posted; events: the event log; metrics: all samples of the metrics; trajectories: the observe directory; log: the events for people. */
  name: "adapter" | "adapter_peft" | "config" | "events" | "metrics" | "trajectories" | "log";
  /** The name under which a download is saved. */
  file_name: string;
  content_type: string;
  /** The size of a download now; a live run's files still grow. */
  size_bytes: number;
  modified_at: string;
}

export interface ArtifactLink {
  /** The download's path with exp and sig, relative to the server's address. */
  url: string;
  expires_at: string;
}

export interface DatasetList {
  datasets: Dataset[];
  /** The cursor of the next page; null on the last one. */
  next_cursor: string | null;
}

/** What the server knows of uploaded data. */
export interface Dataset {
  id: string;
  name: string;
  /** Null when no row has the fields of a kind. */
  kind: "scenarios" | "sft" | "preference" | null;
  /** Lines that are not blank, also those with problems. */
  rows: number;
  /** Lines that training would refuse, also blank ones among the rows, which `rows` leaves out. */
  invalid_rows: number;
  size_bytes: number;
  /** Of the bytes as uploaded, in lower-case hex. */
  sha256: string;
  /** Names of the rows' fields, in the order of occurrence. */
  fields: string[];
  /** The first 20 lines that training would refuse; lines count from 1. */
  problems: Array<{
    line: number;
    message: string;
  }>;
  created_at: string;
}

export interface DatasetTokens {
  tokens: DatasetToken[];
  /** The cursor of the next page; null on the last one. */
  next_cursor: string | null;
}

/** A token of a row as it would be trained. */
export interface DatasetToken {
  id: number;
  text: string;
  origin: "prompt" | "model" | "tool" | "forced";
  trained: boolean;
  /** The sequence of the row, from 0. */
  sequence: number;
  /** The completion of a pair; null for rows of other kinds. */
  side: "chosen" | "rejected" | null;
}

export interface DatasetPreview {
  rows: DatasetRow[];
  /** The cursor of the next page; null on the last one. */
  next_cursor: string | null;
}

export interface DatasetRow {
  line: number;
  /** Null when the line is no object or has more than 65,536 characters. */
  row: { [name: string]: JsonValue } | null;
  /** The first 2,000 characters of a line without row; null when it cannot be read. */
  text: string | null;
  /** Why training would refuse the line. */
  problem: string | null;
}

export interface TokenizeSummary {
  ctx: number;
  /** Rows that were tokenised. */
  rows: number;
  /** False when the time was up before the last row. */
  complete: boolean;
  sequences: number;
  /** Of all sequences, also after ctx. */
  tokens: number;
  trained_tokens: number;
  /** Rows by length; each bin after the first ends at twice as many tokens. */
  histogram: Array<{
    min_tokens: number;
    max_tokens: number;
    rows: number;
  }>;
  /** The 20 longest rows, longest first. */
  longest: Array<{
    line: number;
    tokens: number;
  }>;
  /** Rows with a sequence longer than ctx, and the lines of the first 20. */
  truncated: {
    rows: number;
    lines: number[];
  };
  /** The first 20 lines that cannot be rendered. */
  problems: Array<{
    line: number;
    message: string;
  }>;
}

export interface TokenizeRequest {
  /** Path of a GGUF file in path_roots. */
  model: string;
  /** Absent: the training default. */
  ctx?: number;
  /** Such as enable_thinking; as in the run. */
  template_variables?: { [name: string]: JsonValue };
}

/** An entry of the server's catalogue; its id is all that a request may say of it. */
export interface Reward {
  id: string;
  description: string;
  type: "command";
}

/** An entry of the server's catalogue; its id is all that a request may say of it. */
export interface Judge {
  id: string;
  description: string;
  type: "ruler" | "local";
}

/** An entry of the server's catalogue; its id is all that a request may say of it. */
export interface Environment {
  id: string;
  description: string;
  type: "container" | "local" | "http";
}

/** An entry of the server's catalogue; its id is all that a request may say of it. */
export interface McpServer {
  id: string;
  description: string;
  type: "stdio" | "http";
}

export interface ModelFileList {
  models: ModelFile[];
  /** The cursor of the next page; null on the last one. */
  next_cursor: string | null;
}

/** A GGUF file that requests may name. */
export interface ModelFile {
  /** As requests may name it. */
  path: string;
  size_bytes: number;
  /** Null for a file that cannot be read. */
  type: "model" | "adapter" | null;
  /** The name that the file gives the model. */
  name: string | null;
  architecture: string | null;
  parameters: number | null;
  /** The types of its tensors, each once. */
  tensor_types: string[];
  /** The context that it was trained for. */
  context_length: number | null;
  chat_template: boolean;
  /** How its template writes tool calls; null without a template that can be rendered. */
  tool_call_format: "hermes" | "llama3_json" | "mistral" | "none" | null;
  /** Whether this build can train it. */
  trainable: boolean;
  /** Why the file cannot be read, or not be trained. */
  problem: string | null;
}

export interface Preflight {
  /** As the request names it. */
  model: string;
  name: string | null;
  architecture: string;
  parameters: number;
  layers: number;
  width: number | null;
  context_length: number | null;
  vocabulary: number | null;
  /** Its kind and pre-tokenizer. */
  tokenizer: string | null;
  /** By type: how many tensors, their bytes, and whether this build reads them. */
  tensor_types: { [name: string]: {
    tensors: number;
    bytes: number;
    readable: boolean;
  } };
  chat_template: boolean;
  /** Null without a template, or when the tokenizer cannot be read. */
  template_probe: TemplateProbe | null;
  /** Whether this build can train it. */
  trainable: boolean;
  not_trainable_reason: string | null;
  /** All targets of the model; empty when it cannot be trained. */
  lora_targets: Array<"q_proj" | "k_proj" | "v_proj" | "o_proj" | "gate_proj" | "up_proj" | "down_proj">;
  /** Parameters of an adapter on the requested targets, for each unit of its rank. */
  lora_parameters_per_rank: number;
  problems: string[];
}

export interface PreflightRequest {
  /** Path of a GGUF file in path_roots. */
  model: string;
  /** The LoRA targets whose parameters to count. */
  targets?: "all" | Array<"q_proj" | "k_proj" | "v_proj" | "o_proj" | "gate_proj" | "up_proj" | "down_proj">;
}

export interface ServedModels {
  object: "list";
  data: ServedModel[];
}

export interface ServedModel {
  /** <run id>, <run id>@<checkpoint> or <run id>@base. */
  id: string;
  object: "model";
  /** When the run was created, in seconds since 1970. */
  created: number;
  owned_by: "svc";
}

export interface ChatCompletion {
  id: string;
  object: "chat.completion";
  /** Seconds since 1970. */
  created: number;
  model: string;
  choices: Array<{
    index: number;
    message: {
      role: "assistant";
      content: string | null;
      refusal: null;
      /** The thinking before the content. */
      reasoning_content?: string;
      tool_calls?: ChatToolCall[];
    };
    logprobs: ChatLogprobs | null;
    finish_reason: "stop" | "length" | "tool_calls";
  }>;
  usage: ChatUsage;
}

export interface ChatToolCall {
  id: string;
  type: "function";
  function: {
    name: string;
    /** A JSON object. */
    arguments: string;
  };
}

/** The sampled tokens, without the one that ended the turn. */
export interface ChatLogprobs {
  content: Array<{
    token: string;
    /** Among the tokens that could be sampled. */
    logprob: number;
    bytes: number[];
    top_logprobs: never[];
  }>;
  refusal: null;
}

export interface ChatUsage {
  prompt_tokens: number;
  /** Of all answers, with the tokens that ended them. */
  completion_tokens: number;
  total_tokens: number;
}

/** A part of an answer, in OpenAI's form. */
export interface ChatCompletionChunk {
  id: string;
  object: "chat.completion.chunk";
  /** Seconds since 1970. */
  created: number;
  model: string;
  choices: Array<{
    index: number;
    delta: {
      role?: "assistant";
      content?: string;
      refusal?: null;
      reasoning_content?: string;
      tool_calls?: Array<{
        index: number;
        id: string;
        type: "function";
        function: {
          name: string;
          /** A JSON object. */
          arguments: string;
        };
      }>;
    };
    logprobs: ChatLogprobs | null;
    finish_reason: "stop" | "length" | "tool_calls" | null;
  }>;
  /** Of all choices, in the last chunk. */
  usage?: ChatUsage | null;
}

/** The last event of an answer that failed after its beginning. */
export interface ChatStreamFailure {
  error: OpenAiError;
}

export interface ChatCompletionRequest {
  /** <run id>, <run id>@<checkpoint> or <run id>@base. */
  model: string;
  messages: ChatMessage[];
  tools?: ChatTool[] | null;
  /** auto by default. */
  tool_choice?: "auto" | "none" | null;
  /** false ends an answer after its first call. */
  parallel_tool_calls?: boolean | null;
  /** The most tokens of an answer. Absent: as many as the context has room for. */
  max_tokens?: number | null;
  /** The most tokens of an answer. Absent: as many as the context has room for. */
  max_completion_tokens?: number | null;
  /** 1 by default. */
  temperature?: number | null;
  /** 1 by default. */
  top_p?: number | null;
  /** The same seed gives the same answer. Absent: a random one. */
  seed?: number | null;
  /** The number of answers; 1 by default. */
  n?: number | null;
  stop?: string | string[] | null;
  logprobs?: boolean | null;
  /** Only the sampled token is returned. */
  top_logprobs?: 0 | null;
  response_format?: {
    type: "text";
  } | {
    type: "json_object";
  } | {
    type: "json_schema";
    json_schema: {
      name: string;
      description?: string;
      schema: Record<string, unknown>;
      /** The schema is always enforced. */
      strict?: boolean | null;
    };
  } | null;
  stream?: boolean | null;
  stream_options?: {
    include_usage?: boolean | null;
    include_obfuscation?: false | null;
  } | null;
  frequency_penalty?: 0 | null;
  presence_penalty?: 0 | null;
  logit_bias?: Record<string, never> | null;
  user?: string | null;
  metadata?: { [name: string]: string } | null;
  store?: false | null;
  service_tier?: "auto" | "default" | null;
  safety_identifier?: string | null;
  prompt_cache_key?: string | null;
}

/** A message in OpenAI's form; text only. */
export type ChatMessage = {
  role: "system";
  content: string | Array<{
    type: "text";
    text: string;
  }>;
  name?: string;
} | {
  role: "developer";
  content: string | Array<{
    type: "text";
    text: string;
  }>;
  name?: string;
} | {
  role: "user";
  content: string | Array<{
    type: "text";
    text: string;
  }>;
  name?: string;
} | {
  role: "assistant";
  content?: string | Array<{
    type: "text";
    text: string;
  }> | null;
  /** The thinking before the content. */
  reasoning_content?: string | null;
  tool_calls?: Array<{
    id: string;
    type: "function";
    function: {
      name: string;
      arguments: string;
    };
  }> | null;
  name?: string;
  /** Accepted as clients send it back; has no effect. */
  refusal?: null;
  /** Accepted as clients send it back; has no effect. */
  audio?: null;
  /** Accepted as clients send it back; has no effect. */
  function_call?: null;
  annotations?: never[] | null;
} | {
  role: "tool";
  content: string | Array<{
    type: "text";
    text: string;
  }>;
  tool_call_id: string;
  name?: string;
};

export interface ChatTool {
  type: "function";
  function: {
    name: string;
    description?: string;
    parameters?: Record<string, unknown>;
    /** Arguments are not enforced. */
    strict?: false | null;
  };
}

/** The operations by name. Problems are the kinds at the end of their `type`. */
export interface Operations {
  /** Whether the server answers; needs no token. */
  probe_health: {
    method: "GET";
    path: "/healthz";
    params: Record<string, never>;
    query: Record<string, never>;
    headers: Record<string, never>;
    body: null;
    answers: {
      200: {
        "application/json": {
          status: "ok";
        };
      };
      401: {
        "text/plain": string;
      };
    };
    problems: never;
  };
  /** Version and uptime. */
  get_health: {
    method: "GET";
    path: "/v1/health";
    params: Record<string, never>;
    query: Record<string, never>;
    headers: Record<string, never>;
    body: null;
    answers: {
      200: {
        "application/json": Health;
      };
    };
    problems: "unauthorized" | "invalid-request" | "internal";
  };
  /** Features, devices, budgets and what this build has. */
  get_capabilities: {
    method: "GET";
    path: "/v1/capabilities";
    params: Record<string, never>;
    query: Record<string, never>;
    headers: Record<string, never>;
    body: null;
    answers: {
      200: {
        "application/json": Capabilities;
      };
    };
    problems: "unauthorized" | "invalid-request" | "internal";
  };
  /** This description, as OpenAPI 3.1. */
  get_openapi: {
    method: "GET";
    path: "/v1/openapi.json";
    params: Record<string, never>;
    query: Record<string, never>;
    headers: Record<string, never>;
    body: null;
    answers: {
      200: {
        "application/json": OpenApi;
      };
    };
    problems: "unauthorized" | "invalid-request" | "internal";
  };
  /** Every published default with its rule. */
  get_defaults: {
    method: "GET";
    path: "/v1/defaults";
    params: Record<string, never>;
    query: Record<string, never>;
    headers: Record<string, never>;
    body: null;
    answers: {
      200: {
        "application/json": Defaults;
      };
    };
    problems: "unauthorized" | "invalid-request" | "internal";
  };
  /** The run configuration as JSON Schema. */
  get_config_schema: {
    method: "GET";
    path: "/v1/config-schema";
    params: Record<string, never>;
    query: Record<string, never>;
    headers: Record<string, never>;
    body: null;
    answers: {
      200: {
        "application/json": { [name: string]: unknown };
      };
    };
    problems: "unauthorized" | "invalid-request" | "internal";
  };
  /** Plans a recipe, a configuration or a fork; nothing is created. */
  create_plan: {
    method: "POST";
    path: "/v1/plan";
    params: Record<string, never>;
    query: {
      /** true measures an update on the device, in place of estimates of memory and time. */
      calibrate?: "true" | "false";
    };
    headers: Record<string, never>;
    body: {
      "application/json": Recipe | WholeConfiguration | Fork;
      "application/toml": string;
    };
    answers: {
      200: {
        "application/json": Plan;
      };
    };
    problems: "unauthorized" | "forbidden-path" | "not-found" | "conflict" | "payload-too-large" | "unsupported-media-type" | "invalid-request" | "server-declared" | "unknown-catalog-id" | "insufficient-memory" | "internal" | "device-busy" | "timeout";
  };
  /** Runs, newest first. */
  list_runs: {
    method: "GET";
    path: "/v1/runs";
    params: Record<string, never>;
    query: {
      /** Only runs in this state. */
      state?: "queued" | "starting" | "running" | "pausing" | "paused" | "stopping" | "completed" | "cancelled" | "failed" | "interrupted";
      /** Only runs with this algorithm. */
      algorithm?: "agent_grpo" | "sft" | "preference";
      /** Only runs with this name. */
      name?: string;
      /** The most items in the answer, 1 to 500. */
      limit?: number;
      /** The `next_cursor` of the page before. */
      cursor?: string;
    };
    headers: Record<string, never>;
    body: null;
    answers: {
      200: {
        "application/json": {
          runs: Run[];
          /** The cursor of the next page; null on the last one. */
          next_cursor: string | null;
        };
      };
    };
    problems: "unauthorized" | "invalid-request" | "internal";
  };
  /** Starts a run from a recipe, a configuration or a fork. */
  create_run: {
    method: "POST";
    path: "/v1/runs";
    params: Record<string, never>;
    query: Record<string, never>;
    headers: {
      /** A repeated request with the same key gets the first one's run, for 24 hours. */
      "Idempotency-Key"?: string;
    };
    body: {
      "application/json": Recipe | WholeConfiguration | Fork;
      "application/toml": string;
    };
    answers: {
      200: {
        "application/json": Run;
      };
      201: {
        "application/json": Run;
      };
    };
    problems: "unauthorized" | "forbidden-path" | "not-found" | "conflict" | "payload-too-large" | "unsupported-media-type" | "invalid-request" | "server-declared" | "unknown-catalog-id" | "insufficient-memory" | "internal" | "device-busy";
  };
  /** A run. */
  get_run: {
    method: "GET";
    path: "/v1/runs/{id}";
    params: {
      id: string;
    };
    query: Record<string, never>;
    headers: Record<string, never>;
    body: null;
    answers: {
      200: {
        "application/json": Run;
      };
    };
    problems: "unauthorized" | "not-found" | "invalid-request" | "internal";
  };
  /** Changes name, notes, tags or the learning rate. */
  update_run: {
    method: "PATCH";
    path: "/v1/runs/{id}";
    params: {
      id: string;
    };
    query: Record<string, never>;
    headers: Record<string, never>;
    body: {
      "application/json": RunUpdate;
    };
    answers: {
      200: {
        "application/json": Run;
      };
    };
    problems: "unauthorized" | "not-found" | "conflict" | "payload-too-large" | "unsupported-media-type" | "invalid-request" | "internal";
  };
  /** Deletes a run that has ended or is interrupted. */
  delete_run: {
    method: "DELETE";
    path: "/v1/runs/{id}";
    params: {
      id: string;
    };
    query: Record<string, never>;
    headers: Record<string, never>;
    body: null;
    answers: {
      204: null;
    };
    problems: "unauthorized" | "not-found" | "conflict" | "invalid-request" | "internal";
  };
  /** Pauses at the next boundary, with a checkpoint. */
  pause_run: {
    method: "POST";
    path: "/v1/runs/{id}/pause";
    params: {
      id: string;
    };
    query: Record<string, never>;
    headers: Record<string, never>;
    body: null;
    answers: {
      202: {
        "application/json": Accepted;
      };
    };
    problems: "unauthorized" | "not-found" | "conflict" | "unsupported-media-type" | "invalid-request" | "internal";
  };
  /** Goes on from the newest checkpoint. */
  resume_run: {
    method: "POST";
    path: "/v1/runs/{id}/resume";
    params: {
      id: string;
    };
    query: Record<string, never>;
    headers: Record<string, never>;
    body: null;
    answers: {
      202: {
        "application/json": Accepted;
      };
    };
    problems: "unauthorized" | "not-found" | "conflict" | "unsupported-media-type" | "invalid-request" | "internal" | "device-busy";
  };
  /** Ends a run, at the next boundary or now. */
  cancel_run: {
    method: "POST";
    path: "/v1/runs/{id}/cancel";
    params: {
      id: string;
    };
    query: Record<string, never>;
    headers: Record<string, never>;
    body?: {
      "application/json": Cancel;
    };
    answers: {
      202: {
        "application/json": Accepted;
      };
    };
    problems: "unauthorized" | "not-found" | "conflict" | "payload-too-large" | "unsupported-media-type" | "invalid-request" | "internal";
  };
  /** Writes a checkpoint at the next boundary. */
  create_checkpoint: {
    method: "POST";
    path: "/v1/runs/{id}/checkpoints";
    params: {
      id: string;
    };
    query: Record<string, never>;
    headers: Record<string, never>;
    body: null;
    answers: {
      202: {
        "application/json": Accepted;
      };
    };
    problems: "unauthorized" | "not-found" | "conflict" | "unsupported-media-type" | "invalid-request" | "internal";
  };
  /** The checkpoints of a run, newest first. */
  list_checkpoints: {
    method: "GET";
    path: "/v1/runs/{id}/checkpoints";
    params: {
      id: string;
    };
    query: {
      /** The most items in the answer, 1 to 500. */
      limit?: number;
      /** The `next_cursor` of the page before. */
      cursor?: string;
    };
    headers: Record<string, never>;
    body: null;
    answers: {
      200: {
        "application/json": CheckpointList;
      };
    };
    problems: "unauthorized" | "not-found" | "invalid-request" | "internal";
  };
  /** Measures a run on its held-out data now. */
  evaluate_run: {
    method: "POST";
    path: "/v1/runs/{id}/evaluate";
    params: {
      id: string;
    };
    query: Record<string, never>;
    headers: Record<string, never>;
    body?: {
      "application/json": Evaluate;
    };
    answers: {
      200: {
        "application/json": EvaluationResult;
      };
    };
    problems: "unauthorized" | "not-found" | "conflict" | "payload-too-large" | "unsupported-media-type" | "invalid-request" | "insufficient-memory" | "internal" | "device-busy" | "timeout";
  };
  /** Lets the policy of a run answer messages. */
  generate_with_run: {
    method: "POST";
    path: "/v1/runs/{id}/generate";
    params: {
      id: string;
    };
    query: Record<string, never>;
    headers: Record<string, never>;
    body: {
      "application/json": Generate;
    };
    answers: {
      200: {
        "application/json": Generation;
      };
    };
    problems: "unauthorized" | "not-found" | "conflict" | "payload-too-large" | "unsupported-media-type" | "invalid-request" | "insufficient-memory" | "internal" | "device-busy" | "timeout";
  };
  /** The evaluations of a run, newest first, with the outcome of every scenario. */
  list_evaluations: {
    method: "GET";
    path: "/v1/runs/{id}/evaluations";
    params: {
      id: string;
    };
    query: {
      /** The most items in the answer, 1 to 500. */
      limit?: number;
      /** The `next_cursor` of the page before. */
      cursor?: string;
    };
    headers: Record<string, never>;
    body: null;
    answers: {
      200: {
        "application/json": EvaluationList;
      };
    };
    problems: "unauthorized" | "not-found" | "invalid-request" | "internal";
  };
  /** An evaluation with the outcome of every scenario. */
  get_evaluation: {
    method: "GET";
    path: "/v1/runs/{id}/evaluations/{n}";
    params: {
      id: string;
      n: string;
    };
    query: Record<string, never>;
    headers: Record<string, never>;
    body: null;
    answers: {
      200: {
        "application/json": Evaluation;
      };
    };
    problems: "unauthorized" | "not-found" | "invalid-request" | "internal";
  };
  /** Rules read from the metrics of a run, with advice. */
  get_run_health: {
    method: "GET";
    path: "/v1/runs/{id}/health";
    params: {
      id: string;
    };
    query: Record<string, never>;
    headers: Record<string, never>;
    body: null;
    answers: {
      200: {
        "application/json": RunHealth;
      };
    };
    problems: "unauthorized" | "not-found" | "invalid-request" | "internal";
  };
  /** The scenarios of a run with their pass rate by update. */
  list_run_scenarios: {
    method: "GET";
    path: "/v1/runs/{id}/scenarios";
    params: {
      id: string;
    };
    query: {
      /** The most items in the answer, 1 to 500. */
      limit?: number;
      /** The `next_cursor` of the page before. */
      cursor?: string;
    };
    headers: Record<string, never>;
    body: null;
    answers: {
      200: {
        "application/json": {
          scenarios: RunScenario[];
          /** The cursor of the next page; null on the last one. */
          next_cursor: string | null;
          /** Lines of the files read for this answer that could not be read, such as one that a crash cut off. */
          skipped_lines: number;
        };
      };
    };
    problems: "unauthorized" | "not-found" | "invalid-request" | "internal";
  };
  /** A scenario with its groups over updates. */
  get_run_scenario: {
    method: "GET";
    path: "/v1/runs/{id}/scenarios/{scenario}";
    params: {
      id: string;
      scenario: string;
    };
    query: {
      /** The most items in the answer, 1 to 500. */
      limit?: number;
      /** The `next_cursor` of the page before. */
      cursor?: string;
    };
    headers: Record<string, never>;
    body: null;
    answers: {
      200: {
        "application/json": RunScenarioGroups;
      };
    };
    problems: "unauthorized" | "not-found" | "invalid-request" | "internal";
  };
  /** Runs beside each other: configuration, metrics, evaluations. */
  compare_runs: {
    method: "GET";
    path: "/v1/compare";
    params: Record<string, never>;
    query: {
      /** 2 to 8 runs with commas between them; each is compared with the first. */
      runs: string[];
      /** The evaluation of each run: first, best, last, or its number. */
      evaluation?: string;
      /** The most points of an aligned metric, 1 to 200. */
      points?: number;
      /** The metrics to align; absent: all. */
      names?: string[];
    };
    headers: Record<string, never>;
    body: null;
    answers: {
      200: {
        "application/json": RunComparison;
      };
    };
    problems: "unauthorized" | "not-found" | "invalid-request" | "internal";
  };
  /** The events of a run, as server-sent events. */
  stream_run_events: {
    method: "GET";
    path: "/v1/runs/{id}/events";
    params: {
      id: string;
    };
    query: {
      /** The id of the last event that the client has; the header Last-Event-ID says the same. */
      since?: string;
    };
    headers: {
      /** The id of the last event that the client has. It counts before since. */
      "Last-Event-ID"?: string;
    };
    body: null;
    answers: {
      200: {
        "text/event-stream": string;
      };
      204: null;
    };
    problems: "unauthorized" | "not-found" | "invalid-request" | "internal";
  };
  /** Runs created, changed and deleted, as server-sent events. */
  stream_events: {
    method: "GET";
    path: "/v1/events";
    params: Record<string, never>;
    query: {
      /** The id of the last event that the client has; the header Last-Event-ID says the same. */
      since?: string;
    };
    headers: {
      /** The id of the last event that the client has. It counts before since. */
      "Last-Event-ID"?: string;
    };
    body: null;
    answers: {
      200: {
        "text/event-stream": string;
      };
    };
    problems: "unauthorized" | "invalid-request" | "internal";
  };
  /** Samples of the metrics, as JSON or CSV. */
  list_metrics: {
    method: "GET";
    path: "/v1/runs/{id}/metrics";
    params: {
      id: string;
    };
    query: {
      /** Only samples of events with a larger number. */
      since?: number;
      /** Up to 200 metrics, with commas between them; absent: all. */
      names?: string[];
      /** The most samples, 1 to 100000; absent: 10000, and all for CSV. An event is not divided: an answer that would begin with a larger one has all of it. */
      limit?: number;
      /** Instead of samples, up to this many buckets for each metric, 1 to 1000. */
      buckets?: number;
      /** Only samples of this update and later ones. Buckets divide the updates that are left. */
      first_update?: number;
      /** Only samples of this update and earlier ones. */
      last_update?: number;
      /** The media type of the answer. */
      format?: "json" | "csv";
    };
    headers: Record<string, never>;
    body: null;
    answers: {
      200: {
        "application/json": Samples | MetricBuckets;
        "text/csv": string;
      };
    };
    problems: "unauthorized" | "not-found" | "invalid-request" | "internal";
  };
  /** Updates with their counts, rewards and whether texts are kept. */
  list_trajectory_updates: {
    method: "GET";
    path: "/v1/runs/{id}/trajectories";
    params: {
      id: string;
    };
    query: {
      /** The most items in the answer, 1 to 500. */
      limit?: number;
      /** The `next_cursor` of the page before. */
      cursor?: string;
    };
    headers: Record<string, never>;
    body: null;
    answers: {
      200: {
        "application/json": {
          updates: TrajectoryUpdate[];
          /** The cursor of the next page; null on the last one. */
          next_cursor: string | null;
          /** Lines of the files read for this answer that could not be read, such as one that a crash cut off. */
          skipped_lines: number;
        };
      };
    };
    problems: "unauthorized" | "not-found" | "invalid-request" | "internal";
  };
  /** Members by scenario, ending, failure, reward, tool or text. */
  search_trajectories: {
    method: "GET";
    path: "/v1/runs/{id}/trajectories/search";
    params: {
      id: string;
    };
    query: {
      /** The most items in the answer, 1 to 500. */
      limit?: number;
      /** The `next_cursor` of the page before. */
      cursor?: string;
      /** The scenario's id. */
      scenario?: string;
      /** How the member ended. */
      stop_reason?: "completed" | "no_tool_call" | "submitted" | "max_turns" | "max_turn_tokens" | "max_trajectory_tokens" | "timeout" | "tool_failed" | "environment_failed" | "cancelled";
      /** Where it failed. */
      failure?: "prompt" | "tool" | "environment" | "reward" | "judge" | "infrastructure";
      /** The least total reward. */
      min_reward?: number;
      /** The largest total reward. */
      max_reward?: number;
      /** The name of a tool that it called. Up to 1000 characters. */
      tool?: string;
      /** A part of a message, a call, a result or an explanation; upper and lower case are equal. Up to 1000 characters. */
      text?: string;
    };
    headers: Record<string, never>;
    body: null;
    answers: {
      200: {
        "application/json": {
          members: FoundTrajectoryMember[];
          /** The cursor of the next page; null on the last one. */
          next_cursor: string | null;
          /** Lines of the files read for this answer that could not be read, such as one that a crash cut off. */
          skipped_lines: number;
        };
      };
    };
    problems: "unauthorized" | "not-found" | "invalid-request" | "internal";
  };
  /** Where two members of a group part. */
  diff_trajectories: {
    method: "GET";
    path: "/v1/runs/{id}/trajectories/updates/{update}/groups/{group}/diff";
    params: {
      id: string;
      update: string;
      group: string;
    };
    query: {
      /** A member. */
      a: number;
      /** The member to compare it with. */
      b: number;
    };
    headers: Record<string, never>;
    body: null;
    answers: {
      200: {
        "application/json": TrajectoryDiff;
      };
    };
    problems: "unauthorized" | "not-found" | "invalid-request" | "internal";
  };
  /** The groups of an update, without texts. */
  get_trajectory_update: {
    method: "GET";
    path: "/v1/runs/{id}/trajectories/updates/{update}";
    params: {
      id: string;
      update: string;
    };
    query: {
      /** The most items in the answer, 1 to 500. */
      limit?: number;
      /** The `next_cursor` of the page before. */
      cursor?: string;
    };
    headers: Record<string, never>;
    body: null;
    answers: {
      200: {
        "application/json": {
          groups: TrajectoryGroupSummary[];
          /** The cursor of the next page; null on the last one. */
          next_cursor: string | null;
          /** Lines of the files read for this answer that could not be read, such as one that a crash cut off. */
          skipped_lines: number;
        };
      };
    };
    problems: "unauthorized" | "not-found" | "invalid-request" | "internal";
  };
  /** A group with every text. */
  get_trajectory_group: {
    method: "GET";
    path: "/v1/runs/{id}/trajectories/updates/{update}/groups/{group}";
    params: {
      id: string;
      update: string;
      group: string;
    };
    query: {
      /** The most items in the answer, 1 to 500. */
      limit?: number;
      /** The `next_cursor` of the page before. */
      cursor?: string;
      /** Only this member, by its number. */
      member?: number;
    };
    headers: Record<string, never>;
    body: null;
    answers: {
      200: {
        "application/json": TrajectoryGroup;
      };
    };
    problems: "unauthorized" | "not-found" | "invalid-request" | "internal";
  };
  /** The tokens of a member as they were trained. */
  list_trajectory_tokens: {
    method: "GET";
    path: "/v1/runs/{id}/trajectories/updates/{update}/groups/{group}/members/{member}/tokens";
    params: {
      id: string;
      update: string;
      group: string;
      member: string;
    };
    query: {
      /** The most items in the answer, 1 to 500. */
      limit?: number;
      /** The `next_cursor` of the page before. */
      cursor?: string;
    };
    headers: Record<string, never>;
    body: null;
    answers: {
      200: {
        "application/json": {
          tokens: TrajectoryToken[];
          /** The cursor of the next page; null on the last one. */
          next_cursor: string | null;
          /** Lines of the files read for this answer that could not be read, such as one that a crash cut off. */
          skipped_lines: number;
        };
      };
    };
    problems: "unauthorized" | "not-found" | "invalid-request" | "internal";
  };
  /** The artefacts that a run has now, complete ones only. */
  list_artifacts: {
    method: "GET";
    path: "/v1/runs/{id}/artifacts";
    params: {
      id: string;
    };
    query: {
      /** The most items in the answer, 1 to 500. */
      limit?: number;
      /** The `next_cursor` of the page before. */
      cursor?: string;
    };
    headers: Record<string, never>;
    body: null;
    answers: {
      200: {
        "application/json": ArtifactList;
      };
    };
    problems: "unauthorized" | "not-found" | "invalid-request" | "internal";
  };
  /** The bytes of an artefact. A signed link stands for the token. A range that is malformed, cannot be satisfied or has several parts is ignored. */
  download_artifact: {
    method: "GET";
    path: "/v1/runs/{id}/artifacts/{name}";
    params: {
      id: string;
      name: string;
    };
    query: Record<string, never>;
    headers: {
      /** One range of bytes, such as bytes=0-1023. */
      Range?: string;
      /** The ETag for which the range counts; with another one the answer is all of it. */
      "If-Range"?: string;
      /** The ETags of bytes that the client has. */
      "If-None-Match"?: string;
    };
    body: null;
    answers: {
      200: {
        "application/octet-stream": Blob;
        "application/zip": Blob;
        "application/toml": Blob;
        "application/x-ndjson": Blob;
        "text/csv": Blob;
        "text/plain": Blob;
      };
      206: {
        "application/octet-stream": Blob;
        "application/zip": Blob;
        "application/toml": Blob;
        "application/x-ndjson": Blob;
        "text/csv": Blob;
        "text/plain": Blob;
      };
      304: null;
    };
    problems: "unauthorized" | "not-found" | "invalid-request" | "internal";
  };
  /** A signed link to one artefact, valid for 60 seconds. */
  link_artifact: {
    method: "POST";
    path: "/v1/runs/{id}/artifacts/{name}/link";
    params: {
      id: string;
      name: string;
    };
    query: Record<string, never>;
    headers: Record<string, never>;
    body: null;
    answers: {
      200: {
        "application/json": ArtifactLink;
      };
    };
    problems: "unauthorized" | "not-found" | "unsupported-media-type" | "invalid-request" | "internal";
  };
  /** Datasets, newest first. */
  list_datasets: {
    method: "GET";
    path: "/v1/datasets";
    params: Record<string, never>;
    query: {
      /** The most items in the answer, 1 to 500. */
      limit?: number;
      /** The `next_cursor` of the page before. */
      cursor?: string;
    };
    headers: Record<string, never>;
    body: null;
    answers: {
      200: {
        "application/json": DatasetList;
      };
    };
    problems: "unauthorized" | "invalid-request" | "internal";
  };
  /** Uploads NDJSON. A dataset with broken lines is stored, with its problems. */
  create_dataset: {
    method: "POST";
    path: "/v1/datasets";
    params: Record<string, never>;
    query: {
      /** Absent: the id. */
      name?: string;
      /** auto takes the kind whose fields the first rows have. */
      kind?: "auto" | "scenarios" | "sft" | "preference";
    };
    headers: Record<string, never>;
    body: {
      "application/x-ndjson": string;
    };
    answers: {
      200: {
        "application/json": Dataset;
      };
      201: {
        "application/json": Dataset;
      };
    };
    problems: "unauthorized" | "conflict" | "payload-too-large" | "unsupported-media-type" | "invalid-request" | "internal" | "device-busy";
  };
  /** The card of a dataset. */
  get_dataset: {
    method: "GET";
    path: "/v1/datasets/{id}";
    params: {
      id: string;
    };
    query: Record<string, never>;
    headers: Record<string, never>;
    body: null;
    answers: {
      200: {
        "application/json": Dataset;
      };
    };
    problems: "unauthorized" | "not-found" | "invalid-request" | "internal";
  };
  /** Deletes a dataset that no live run uses. */
  delete_dataset: {
    method: "DELETE";
    path: "/v1/datasets/{id}";
    params: {
      id: string;
    };
    query: Record<string, never>;
    headers: Record<string, never>;
    body: null;
    answers: {
      204: null;
    };
    problems: "unauthorized" | "not-found" | "conflict" | "invalid-request" | "internal";
  };
  /** The tokens of a row as they would be trained. n is the row's line, from 1. */
  list_row_tokens: {
    method: "GET";
    path: "/v1/datasets/{id}/rows/{n}/tokens";
    params: {
      id: string;
      n: string;
    };
    query: {
      /** Path of a GGUF file in path_roots. */
      model: string;
      /** Tokens after it are not trained; absent: the training default. */
      ctx?: number;
      /** The most items in the answer, 1 to 500. */
      limit?: number;
      /** The `next_cursor` of the page before. */
      cursor?: string;
    };
    headers: Record<string, never>;
    body: null;
    answers: {
      200: {
        "application/json": DatasetTokens;
      };
    };
    problems: "unauthorized" | "forbidden-path" | "not-found" | "invalid-request" | "internal" | "device-busy";
  };
  /** The first rows as they are read. */
  preview_dataset: {
    method: "GET";
    path: "/v1/datasets/{id}/preview";
    params: {
      id: string;
    };
    query: {
      /** The most items in the answer, 1 to 500. */
      limit?: number;
      /** The `next_cursor` of the page before. */
      cursor?: string;
    };
    headers: Record<string, never>;
    body: null;
    answers: {
      200: {
        "application/json": DatasetPreview;
      };
    };
    problems: "unauthorized" | "not-found" | "invalid-request" | "internal" | "device-busy";
  };
  /** How long the rows of a dataset are in tokens. */
  tokenize_dataset: {
    method: "POST";
    path: "/v1/datasets/{id}/tokenize";
    params: {
      id: string;
    };
    query: Record<string, never>;
    headers: Record<string, never>;
    body: {
      "application/json": TokenizeRequest;
    };
    answers: {
      200: {
        "application/json": TokenizeSummary;
      };
    };
    problems: "unauthorized" | "forbidden-path" | "not-found" | "payload-too-large" | "unsupported-media-type" | "invalid-request" | "internal" | "device-busy";
  };
  /** Rewards that the operator declares. */
  list_rewards: {
    method: "GET";
    path: "/v1/rewards";
    params: Record<string, never>;
    query: {
      /** The most items in the answer, 1 to 500. */
      limit?: number;
      /** The `next_cursor` of the page before. */
      cursor?: string;
    };
    headers: Record<string, never>;
    body: null;
    answers: {
      200: {
        "application/json": {
          rewards: Reward[];
          /** The cursor of the next page; null on the last one. */
          next_cursor: string | null;
        };
      };
    };
    problems: "unauthorized" | "invalid-request" | "internal";
  };
  /** Judges that the operator declares. */
  list_judges: {
    method: "GET";
    path: "/v1/judges";
    params: Record<string, never>;
    query: {
      /** The most items in the answer, 1 to 500. */
      limit?: number;
      /** The `next_cursor` of the page before. */
      cursor?: string;
    };
    headers: Record<string, never>;
    body: null;
    answers: {
      200: {
        "application/json": {
          judges: Judge[];
          /** The cursor of the next page; null on the last one. */
          next_cursor: string | null;
        };
      };
    };
    problems: "unauthorized" | "invalid-request" | "internal";
  };
  /** Environments that the operator declares. */
  list_environments: {
    method: "GET";
    path: "/v1/environments";
    params: Record<string, never>;
    query: {
      /** The most items in the answer, 1 to 500. */
      limit?: number;
      /** The `next_cursor` of the page before. */
      cursor?: string;
    };
    headers: Record<string, never>;
    body: null;
    answers: {
      200: {
        "application/json": {
          environments: Environment[];
          /** The cursor of the next page; null on the last one. */
          next_cursor: string | null;
        };
      };
    };
    problems: "unauthorized" | "invalid-request" | "internal";
  };
  /** MCP servers that the operator declares. */
  list_mcp_servers: {
    method: "GET";
    path: "/v1/mcp-servers";
    params: Record<string, never>;
    query: {
      /** The most items in the answer, 1 to 500. */
      limit?: number;
      /** The `next_cursor` of the page before. */
      cursor?: string;
    };
    headers: Record<string, never>;
    body: null;
    answers: {
      200: {
        "application/json": {
          mcp_servers: McpServer[];
          /** The cursor of the next page; null on the last one. */
          next_cursor: string | null;
        };
      };
    };
    problems: "unauthorized" | "invalid-request" | "internal";
  };
  /** GGUF files under path_roots, by path. */
  list_model_files: {
    method: "GET";
    path: "/v1/model-files";
    params: Record<string, never>;
    query: {
      /** The most items in the answer, 1 to 500. */
      limit?: number;
      /** The `next_cursor` of the page before. */
      cursor?: string;
    };
    headers: Record<string, never>;
    body: null;
    answers: {
      200: {
        "application/json": ModelFileList;
      };
    };
    problems: "unauthorized" | "invalid-request" | "internal" | "device-busy";
  };
  /** What a model supports: LoRA targets, template, tool format. */
  preflight_model: {
    method: "POST";
    path: "/v1/preflight";
    params: Record<string, never>;
    query: Record<string, never>;
    headers: Record<string, never>;
    body: {
      "application/json": PreflightRequest;
    };
    answers: {
      200: {
        "application/json": Preflight;
      };
    };
    problems: "unauthorized" | "forbidden-path" | "payload-too-large" | "unsupported-media-type" | "invalid-request" | "internal" | "device-busy";
  };
  /** Runs and checkpoints that can be served, in OpenAI's form. */
  list_models: {
    method: "GET";
    path: "/v1/models";
    params: Record<string, never>;
    query: Record<string, never>;
    headers: Record<string, never>;
    body: null;
    answers: {
      200: {
        "application/json": ServedModels;
      };
    };
    problems: "unauthorized" | "invalid-request" | "internal" | "not-implemented";
  };
  /** Answers messages with a run, a checkpoint or a base model, in OpenAI's form. */
  create_chat_completion: {
    method: "POST";
    path: "/v1/chat/completions";
    params: Record<string, never>;
    query: Record<string, never>;
    headers: Record<string, never>;
    body: {
      "application/json": ChatCompletionRequest;
    };
    answers: {
      200: {
        "application/json": ChatCompletion;
        "text/event-stream": string;
      };
    };
    problems: "unauthorized" | "not-found" | "conflict" | "payload-too-large" | "unsupported-media-type" | "invalid-request" | "insufficient-memory" | "internal" | "not-implemented" | "device-busy";
  };
  /** The metrics of the server as Prometheus text. */
  get_prometheus_metrics: {
    method: "GET";
    path: "/v1/metrics";
    params: Record<string, never>;
    query: Record<string, never>;
    headers: Record<string, never>;
    body: null;
    answers: {
      200: {
        "text/plain": string;
      };
    };
    problems: "unauthorized" | "invalid-request" | "internal";
  };
  /** The meaning of a type of problem, for people; needs no token. */
  get_problem_page: {
    method: "GET";
    path: "/problems/{kind}";
    params: {
      kind: string;
    };
    query: Record<string, never>;
    headers: Record<string, never>;
    body: null;
    answers: {
      200: {
        "text/html": string;
      };
      401: {
        "text/plain": string;
      };
      404: {
        "text/plain": string;
      };
    };
    problems: never;
  };
}

/** The data of the events of each stream by name; an event without a name is a `message`. */
export interface Events {
  stream_run_events: {
    state: StateEvent;
    metrics: MetricsEvent;
    update: UpdateEvent;
    evaluation: EvaluationEvent;
    checkpoint: CheckpointEvent;
    artifact: ArtifactEvent;
    log: LogEvent;
    warning: WarningEvent;
    command: CommandEvent;
    end: EndEvent;
  };
  stream_events: {
    created: RunCreatedEvent;
    state: RunStateEvent;
    deleted: RunDeletedEvent;
    gap: GapEvent;
  };
  create_chat_completion: {
    message: ChatCompletionChunk | ChatStreamFailure;
  };
}
