/**
 * An engine without a GPU for the tests of other rooms. It samples from a {@link BigramModel} or returns scripted
 * tokens, and can hang or fail on request. It passes the same contract suite as the real engine.
 */

import { createHash } from "node:crypto";
import type { DeviceFacts } from "../../core/device.ts";
import { assert, errorRecord, ServiceError } from "../../core/errors.ts";
import type { RpcPort, ServiceMessage } from "../../core/rpc.ts";
import { Grammars } from "../grammar/grammars.ts";
import type { TokenBytes } from "../grammar/token_trie.ts";
import { checkSamples } from "../learning/check_samples.ts";
import { createTokenMask } from "../sampler/token_mask.ts";
import { EngineClient } from "../protocol/client.ts";
import {
  type AdapterFacts,
  type AdapterSource,
  CHECKPOINT_ADAPTER,
  type EngineCounters,
  type EngineMethod,
  type EngineMethods,
  type EngineNotice,
  type GenerationStop,
  type LoadRequest,
  type LoraShape,
  type ModelFacts,
  type TokenBlock,
} from "../protocol/protocol.ts";
import {
  type BigramAdapter,
  BigramModel,
  copyBigramAdapter,
  interpolateBigramAdapter,
  maskedPositions,
  newBigramAdapter,
  parseAdapter,
  serializeAdapter,
  writeAtomically,
} from "./scripted_model_fake.ts";
import { type ReceivedMessage, ScriptedMicroBatches } from "./scripted_micro_batches_fake.ts";
import { type ScriptedSequence, ScriptedSequences } from "./scripted_sequences_fake.ts";
import { scriptedTokens } from "./scripted_tokens_fake.ts";

/** The facts of a starting generation that a script gets. */
export interface ScriptedTurn {
  sequence: number;
  adapter: string | null;
  /** The tokens of the sequence so far. */
  tokens: readonly number[];
  /** The number of earlier generations of this sequence. */
  turn: number;
  max_tokens: number;
}

/**
 * The answer of a script. Tokens: the generation returns them. `hang`: it returns none until it is cancelled. An error:
 * it fails. Undefined: the model samples.
 */
type ScriptedAnswer = readonly number[] | "hang" | ServiceError | undefined;

export interface ScriptedEngineOptions {
  /** The number of token ids; 64 by default. */
  vocabulary?: number;
  /** The most tokens of a block; 4 by default. */
  block_tokens?: number;
  script?: (turn: ScriptedTurn) => ScriptedAnswer;
  /** Called with every request; it throws to refuse one. The engine answers after a promise that it returns. */
  refuse?: (method: EngineMethod, request: unknown) => void | Promise<void>;
  /** Called before each micro-batch of a request with samples; each sample is one. */
  micro_batch?: ScriptedMicroBatches["begin"];
  context_length?: number;
  /** The texts of the ids, for masks of JSON schemas; absent: those of {@link scriptedTokens}. */
  tokens?: TokenBytes;
}

const DEVICE: DeviceFacts = {
  ...{ name: "scripted", vendor: "", webgpu: "deno", webgpu_reason: "", backend: "none", driver: "" },
  ...{ software: true, features: [], limits: {}, vram_bytes: null },
};

const LORA: LoraShape = { rank: 8, alpha: 16, targets: ["q_proj"] };

type Handlers = { [M in EngineMethod]: (request: EngineMethods[M]["request"]) => EngineMethods[M]["answer"] };

export class ScriptedEngine {
  readonly client: EngineClient;
  readonly #options: Required<Pick<ScriptedEngineOptions, "vocabulary" | "block_tokens" | "context_length">>;
  readonly #script: NonNullable<ScriptedEngineOptions["script"]>;
  readonly #refuse: NonNullable<ScriptedEngineOptions["refuse"]>;
  readonly #micro_batches: ScriptedMicroBatches;
  readonly #model: BigramModel;
  readonly #adapters = new Map<string, BigramAdapter>();
  readonly #kept = new Map<string, Uint8Array>();
  #sequences: ScriptedSequences;
  readonly #grammars: Grammars;
  #decode_rows = 0;
  #most_adapters = Infinity;
  #deliver: (message: ServiceMessage | EngineNotice) => void = () => {};
  #stepping = false;
  readonly #counters = { decode_tokens: 0, decode_steps: 0, decode_rows: 0 };

  constructor(options: ScriptedEngineOptions = {}) {
    this.#options = {
      vocabulary: options.vocabulary ?? 64,
      block_tokens: options.block_tokens ?? 4,
      context_length: options.context_length ?? 4096,
    };
    this.#script = options.script ?? (() => undefined);
    this.#refuse = options.refuse ?? (() => {});
    this.#micro_batches = new ScriptedMicroBatches(options.micro_batch);
    this.#model = new BigramModel(this.#options.vocabulary);
    this.#grammars = new Grammars(() => options.tokens ?? scriptedTokens(this.#options.vocabulary));
    const { vocabulary, context_length } = this.#options;
    this.#sequences = new ScriptedSequences({ vocabulary, max_context: context_length, kv_tokens: 1 << 22 });
    this.client = new EngineClient(this.#port());
  }

  /** The ids of the open sequences. */
  get openSequences(): number[] {
    return this.#sequences.entries().map(([number]) => number);
  }

  #port(): RpcPort {
    return {
      postMessage: (message) => {
        const request = structuredClone(message) as ReceivedMessage;
        queueMicrotask(() => void this.#receive(request));
      },
      addEventListener: (_type, listener) => {
        this.#deliver = (message) => listener({ data: structuredClone(message) } as MessageEvent);
      },
    };
  }

  /** Answers a request. Without samples and a promise to wait for, it does so before it returns. */
  async #receive(message: ReceivedMessage): Promise<void> {
    if ("abort" in message) return this.#micro_batches.abort(message);
    const { id, method, request } = message;
    try {
      const name = method as EngineMethod;
      const held = this.#refuse(name, request);
      if (held) await held;
      const computed = this.#micro_batches.run(message);
      if (computed) await computed;
      const handler = this.#handlers[name] as (request: unknown) => EngineMethods[EngineMethod]["answer"];
      this.#deliver({ id, answer: handler(request) });
    } catch (error) {
      this.#deliver({ id, error: errorRecord(error) });
    }
    this.#step();
  }

  readonly #handlers: Handlers = {
    probe: () => DEVICE,
    load: (request) => this.#loadModel(request),
    adapter_open: ({ adapter, source }) => this.#openAdapter(adapter, source),
    adapter_save: ({ adapter, path }) => {
      const bytes = serializeAdapter(this.#adapter(adapter));
      writeAtomically(path, bytes);
      return { bytes: bytes.length, sha256: createHash("sha256").update(bytes).digest("hex") };
    },
    adapter_close: ({ adapter }) => {
      this.#adapter(adapter);
      this.#refuseLive(adapter);
      this.#adapters.delete(adapter);
      return null;
    },
    adapter_interpolate: ({ adapter, from, scale }) => {
      this.#refuseLive(adapter);
      if (!(scale >= 0 && scale <= 1)) {
        throw new ServiceError("config_invalid", `Cannot move adapter "${adapter}": the scale is ${scale}`);
      }
      interpolateBigramAdapter(this.#adapter(adapter), this.#adapter(from), scale);
      return this.#adapterFacts(adapter);
    },
    adapter_keep: ({ adapter }) => {
      this.#kept.set(adapter, serializeAdapter(this.#adapter(adapter)));
      return null;
    },
    adapter_revert: ({ adapter }) => {
      this.#refuseLive(adapter);
      const kept = this.#kept.get(adapter);
      if (!kept) throw new ServiceError("conflict", `Cannot revert adapter "${adapter}": no state is kept`);
      this.#adapters.set(adapter, parseAdapter(kept));
      return this.#adapterFacts(adapter);
    },
    checkpoint_save: ({ adapter, directory }) => {
      Deno.mkdirSync(directory, { recursive: true });
      Deno.writeFileSync(`${directory}/${CHECKPOINT_ADAPTER}`, serializeAdapter(this.#adapter(adapter)));
      return null;
    },
    checkpoint_load: ({ adapter, directory }) => {
      if (this.#adapters.has(adapter)) this.#refuseLive(adapter);
      this.#adapters.set(adapter, parseAdapter(Deno.readFileSync(`${directory}/${CHECKPOINT_ADAPTER}`)));
      return this.#adapterFacts(adapter);
    },
    sequence_open: (request) => this.#open(request),
    sequence_extend: ({ sequence, tokens }) => {
      this.#sequences.extend(sequence, tokens);
      return null;
    },
    sequence_truncate: ({ sequence, length }) => {
      this.#sequences.truncate(sequence, length);
      return null;
    },
    sequence_generate: (request) => this.#generate(request),
    sequence_cancel: ({ sequence }) => this.#cancel(sequence),
    sequence_close: ({ sequence }) => {
      this.#cancel(sequence);
      this.#sequences.close(sequence);
      return null;
    },
    score: ({ adapter, samples }) => {
      checkSamples(samples, { use: "score", ...this.#sequences.limits });
      const policy = adapter === null ? null : this.#adapter(adapter);
      return { logprobs: samples.map((sample) => Float32Array.from(this.#model.score(policy, sample))) };
    },
    divergence: ({ adapter, from, samples }) => {
      checkSamples(samples, { use: "compare policies on", ...this.#sequences.limits });
      const [p, q] = [from, adapter].map((name) => name === null ? null : this.#adapter(name));
      return { divergences: samples.map((sample) => this.#model.divergence(p!, q!, sample)) };
    },
    train_step: (request) => this.#train(request),
    counters: () => this.#count(),
    shutdown: () => null,
  };

  #loadModel({ max_context, max_sequences, kv_tokens, demand }: LoadRequest): ModelFacts {
    const { vocabulary, context_length } = this.#options;
    if (demand) this.#most_adapters = 1 + demand.other_adapters;
    this.#decode_rows = max_sequences;
    this.#sequences = new ScriptedSequences({ vocabulary, max_context, kv_tokens });
    return {
      architecture: "scripted",
      parameters: vocabulary * vocabulary,
      layers: 1,
      width: vocabulary,
      vocabulary,
      context_length,
      tensor_types: ["F32"],
      compute: "f32",
      kv: "f32",
      device: DEVICE,
    };
  }

  #openAdapter(name: string, source: AdapterSource): AdapterFacts {
    if (this.#adapters.has(name)) {
      throw new ServiceError("conflict", `Cannot open adapter "${name}": it is open`);
    }
    if (this.#adapters.size >= this.#most_adapters) {
      throw new ServiceError("conflict", `Cannot open adapter "${name}": ${this.#adapters.size} are open`);
    }
    const adapter = source.type === "init"
      ? newBigramAdapter()
      : source.type === "copy"
      ? copyBigramAdapter(this.#adapter(source.adapter))
      : copyBigramAdapter(parseAdapter(Deno.readFileSync(source.path)));
    this.#adapters.set(name, adapter);
    return this.#adapterFacts(name);
  }

  #adapterFacts(name: string): AdapterFacts {
    return { lora: LORA, parameters: this.#options.vocabulary ** 2, version: this.#adapter(name).version };
  }

  #open(request: EngineMethods["sequence_open"]["request"]): null {
    if (request.adapter !== null) this.#adapter(request.adapter);
    this.#sequences.open(request);
    return null;
  }

  #cancel(number: number): null {
    const sequence = this.#sequences.get(number);
    if (sequence.running) this.#finish(number, sequence, { tokens: [], logprobs: [], stop: "cancelled" });
    return null;
  }

  #generate(request: EngineMethods["sequence_generate"]["request"]): null {
    const sequence = this.#sequences.idle(request.sequence);
    const { max_tokens, block_tokens = 1, stop_tokens, sampling } = request;
    const least = Math.min(max_tokens, block_tokens);
    if (least < 1) throw new ServiceError("config_invalid", `Cannot generate ${least} tokens: at least 1`);
    const use = { vocabulary: this.#options.vocabulary, stop_tokens, grammars: this.#grammars };
    const mask = sampling.mask && createTokenMask(sampling.mask, use);
    const answer = this.#script({
      sequence: request.sequence,
      adapter: sequence.adapter,
      tokens: sequence.tokens,
      turn: sequence.turns++,
      max_tokens,
    });
    sequence.running = {
      request,
      left: Array.isArray(answer) ? [...answer] : null,
      hangs: answer === "hang",
      error: answer instanceof ServiceError ? answer : null,
      sampled: 0,
      mask,
    };
    return null;
  }

  /** Runs decode steps, each in its own task, until no generation can continue. */
  #step(): void {
    const live = () => this.#sequences.entries().filter(([, s]) => s.running && !s.running.hangs);
    if (this.#stepping || live().length === 0) return;
    this.#stepping = true;
    setTimeout(() => {
      this.#stepping = false;
      this.#counters.decode_steps++;
      this.#counters.decode_rows += this.#decode_rows;
      for (const [number, sequence] of live()) {
        try {
          this.#block(number, sequence);
        } catch (error) {
          sequence.running = null;
          this.#deliver({ failed: { sequence: number, error: errorRecord(error) } });
        }
      }
      this.#step();
    });
  }

  #block(number: number, sequence: ScriptedSequence): void {
    const generation = sequence.running!;
    if (generation.error) throw generation.error;
    const { sampling, stop_tokens, max_tokens, block_tokens = Infinity } = generation.request;
    const adapter = sequence.adapter === null ? null : this.#adapter(sequence.adapter);
    const tokens: number[] = [], logprobs: number[] = [];
    let stop: GenerationStop | null = null;
    while (stop === null && tokens.length < Math.min(this.#options.block_tokens, block_tokens)) {
      const allowed = generation.mask?.bits() ?? null;
      const row = this.#model.logprobs(adapter, sequence.tokens.at(-1)!, { ...sampling, allowed });
      assert(generation.left?.length !== 0, `the script of sequence ${number} ends before its stop token`);
      const token = generation.left?.shift() ?? this.#model.sample(row, sequence.tokens.length, sampling);
      this.#sequences.append(sequence, [token]);
      generation.mask?.advance(token);
      this.#counters.decode_tokens++;
      tokens.push(token);
      logprobs.push(Math.fround(row[token]!));
      generation.sampled++;
      if (stop_tokens.includes(token)) stop = "stop_token";
      else if (generation.sampled >= max_tokens) stop = "max_tokens";
    }
    if (stop !== null) return this.#finish(number, sequence, { tokens, logprobs, stop });
    this.#deliver({ block: { sequence: number, tokens, logprobs, stop } });
  }

  #train(request: EngineMethods["train_step"]["request"]): EngineMethods["train_step"]["answer"] {
    const adapter = this.#adapter(request.adapter);
    this.#refuseLive(request.adapter);
    checkSamples(request.samples, { use: "train on", ...this.#sequences.limits });
    const measured = this.#model.trainStep(adapter, request);
    const groups = new Map(request.samples.map((s) => [s.prefix_group, s.prefix_length]));
    const shared = [...groups.values()].reduce((sum, length) => sum + length, 0);
    const own = request.samples.reduce((sum, s) => sum + s.tokens.length - s.prefix_length, 0);
    return {
      ...measured,
      skipped: false,
      version: adapter.version,
      step: adapter.step,
      computed_tokens: shared + own,
      trained_tokens: request.samples.reduce((sum, s) => sum + maskedPositions(s).length, 0),
      micro_batches: 1,
      eps_dominated_fraction: 0,
    };
  }

  #count(): EngineCounters {
    return {
      submits: 0,
      readbacks: 0,
      dispatches: 0,
      ...this.#counters,
      ...this.#sequences.counters,
      kv_pages_used: this.#sequences.pages.used,
      kv_pages_total: this.#sequences.pages.total,
      ...{ bytes: {}, peak_bytes: {} },
    };
  }

  #finish(number: number, sequence: ScriptedSequence, block: Omit<TokenBlock, "sequence">): void {
    sequence.running = null;
    this.#deliver({ block: { sequence: number, ...block } });
  }

  #adapter(name: string): BigramAdapter {
    const adapter = this.#adapters.get(name);
    if (!adapter) throw new ServiceError("config_invalid", `Cannot use adapter "${name}": it is not open`);
    return adapter;
  }

  #refuseLive(adapter: string): void {
    const live = this.#sequences.entries().find(([, sequence]) => sequence.adapter === adapter);
    if (live) {
      throw new ServiceError("conflict", `Cannot change adapter "${adapter}": sequence ${live[0]} uses it`);
    }
  }
}
