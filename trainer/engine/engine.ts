/** Owns the GPU and answers the requests of the protocol. One job runs on the device at a time. */

import type { DeviceRequest } from "../../core/device.ts";
import { type DeviceClaim, HeldDevice, isTuned } from "../../core/device_lock.ts";
import { type ErrorRecord, ServiceError } from "../../core/errors.ts";
import { hearWhile } from "../../core/pauses.ts";
import { asChecked } from "../../core/regular_file.ts";
import { type RpcPort, serveRpc } from "../../core/rpc.ts";
import { openCheckedGpu } from "../../kernels/canary/open_checked.ts";
import { tunedGpu } from "../../kernels/tuning/tuned_gpu.ts";
import { type Gpu, isOutOfMemory, type OpenRequest } from "../../kernels/device.ts";
import { openGguf } from "../formats/gguf.ts";
import { Grammars } from "../grammar/grammars.ts";
import type { Trainer } from "../learning/trainer.ts";
import { type LoadedModel, loadModel } from "../model/load_model.ts";
import { readTokenizer } from "../tokenizer/read_tokenizer.ts";
import { Batcher, type SampledBlock } from "../sampler/batcher.ts";
import type { Sequence } from "../sampler/sequence.ts";
import { adapterCount, Adapters } from "./adapters.ts";
import { createParts } from "./engine_parts.ts";
import { modelFacts } from "./model_facts.ts";
import { outOfMemory, refuseUnfit, withAdvice } from "./memory_advice.ts";
import { planMemory } from "./plan_memory.ts";
import type {
  EngineCounters,
  EngineMethod,
  EngineMethods,
  EngineNotice,
  EngineSizes,
  LoadRequest,
  ModelFacts,
} from "../protocol/protocol.ts";

/** A loaded model, with its adapters, trainer and batcher. */
interface Loaded extends LoadedModel {
  adapters: Adapters;
  trainer: Trainer;
  batcher: Batcher;
}

interface Owner {
  port: RpcPort;
  id: number;
}

interface Caller {
  port: RpcPort;
  /** Aborts when the caller wants no answer any more. */
  signal: AbortSignal;
}

type Handlers = {
  [M in EngineMethod]: (
    request: EngineMethods[M]["request"],
    caller: Caller,
  ) => Promise<EngineMethods[M]["answer"]> | EngineMethods[M]["answer"];
};

/** Serves the protocol on any number of ports. Each port has its own sequence numbers. */
export class Engine {
  readonly #openGpu: (request: OpenRequest) => Promise<Gpu>;
  readonly #held = new HeldDevice();
  #gpu: Gpu | null = null;
  #device_request = "";
  #opening: Promise<Gpu> | null = null;
  #loaded: Loaded | null = null;
  #lost: ServiceError | null = null;
  #job: Promise<unknown> = Promise.resolve();
  #is_pumping = false;
  #is_wanted = false;
  readonly #sequences = new Map<RpcPort, Map<number, Sequence>>();
  readonly #owners = new Map<Sequence, Owner>();

  /** @param open Opens the device; absent: that of this machine. */
  constructor(open: (request: OpenRequest) => Promise<Gpu> = openCheckedGpu) {
    this.#openGpu = open;
  }

  serve(port: RpcPort): void {
    this.#sequences.set(port, new Map());
    const methods = Object.keys(this.#handlers) as EngineMethod[];
    const answered = (method: EngineMethod) => (request: never, signal: AbortSignal) =>
      this.#answer(method, request, { port, signal });
    serveRpc(port, Object.fromEntries(methods.map((method) => [method, answered(method)])));
  }

  async #answer<M extends EngineMethod>(
    method: M,
    request: EngineMethods[M]["request"],
    caller: Caller,
  ): Promise<EngineMethods[M]["answer"]> {
    try {
      if (this.#lost && method !== "shutdown") throw this.#lost;
      const answer = this.#handlers[method](request, caller);
      this.#pump();
      const answered = await answer;
      // The device's error may have come while it was read.
      if (this.#lost && method !== "shutdown") throw this.#lost;
      return answered;
    } catch (error) {
      throw this.#lost ?? withAdvice(error);
    }
  }

  readonly #handlers: Handlers = {
    probe: async (request) => (await this.#open(request)).facts,
    load: (request) => this.#exclusively(() => this.#load(request)),
    adapter_open: ({ adapter, source }) =>
      this.#exclusively(() => this.#model().adapters.open(adapter, source)),
    adapter_save: ({ adapter, ...files }) =>
      this.#exclusively(() => this.#model().adapters.save(adapter, files)),
    adapter_close: ({ adapter }) => this.#exclusively(() => this.#closeAdapter(adapter)),
    adapter_interpolate: ({ adapter, from, scale }) =>
      this.#exclusively(() => {
        const { adapters } = this.#model();
        this.#expectNoSequences(adapter);
        return adapters.interpolate(adapter, from, scale);
      }),
    adapter_keep: ({ adapter }) => this.#exclusively(() => this.#model().adapters.keep(adapter)),
    adapter_revert: ({ adapter }) =>
      this.#exclusively(() => {
        this.#expectNoSequences(adapter);
        return this.#model().adapters.revert(adapter);
      }),
    checkpoint_save: ({ adapter, directory }) =>
      this.#exclusively(async () => {
        await this.#model().adapters.saveCheckpoint(adapter, directory);
        return null;
      }),
    checkpoint_load: ({ adapter, directory }) =>
      this.#exclusively(() => {
        const { adapters } = this.#model();
        if (adapters.isOpen(adapter)) this.#expectNoSequences(adapter);
        return adapters.loadCheckpoint(adapter, directory);
      }),
    sequence_open: (request, { port }) => this.#openSequence(request, port),
    sequence_extend: ({ sequence, tokens }, { port }) => {
      this.#model().batcher.extend(this.#sequence(port, sequence), tokens);
      return null;
    },
    sequence_truncate: async ({ sequence, length }, { port }) => {
      await this.#model().batcher.truncate(this.#sequence(port, sequence), length);
      return null;
    },
    sequence_generate: (request, { port }) => {
      this.#model().batcher.generate(this.#sequence(port, request.sequence), request);
      return null;
    },
    sequence_cancel: async ({ sequence }, { port }) => {
      await this.#model().batcher.cancel(this.#sequence(port, sequence));
      return null;
    },
    sequence_close: async ({ sequence }, { port }) => {
      const found = this.#sequence(port, sequence);
      await this.#model().batcher.close(found);
      this.#sequences.get(port)!.delete(sequence);
      this.#owners.delete(found);
      return null;
    },
    score: ({ adapter, samples }, { signal }) =>
      this.#exclusively(async () => {
        const { adapters, trainer } = this.#learner(),
          policy = adapter === null ? null : adapters.get(adapter);
        return { logprobs: await trainer.score(policy, samples, signal) };
      }),
    divergence: ({ adapter, from, samples }, { signal }) =>
      this.#exclusively(async () => {
        const { adapters, trainer } = this.#learner();
        const [p, q] = [from, adapter].map((name) => name === null ? null : adapters.get(name));
        return { divergences: await trainer.divergence({ p: p!, q: q! }, samples, signal) };
      }),
    train_step: ({ adapter, samples, loss, optimizer }, { signal }) =>
      this.#exclusively(() => {
        const policy = this.#model().adapters.get(adapter);
        this.#expectNoSequences(adapter);
        return this.#learner().trainer.step(policy, samples, { loss, optimizer, signal });
      }),
    counters: () => this.#counters(),
    shutdown: () => this.#exclusively(() => this.#shutdown()),
  };

  /** Runs a job when the device does nothing. Jobs run in the order of their requests. */
  #exclusively<T>(job: () => Promise<T> | T): Promise<T> {
    return this.#inTurn(async () => {
      const batcher = this.#loaded?.batcher;
      await batcher?.pause().catch((error) => batcher.fail(this.#lost ?? withAdvice(error)));
      return await job();
    });
  }

  /** Runs a job after those before it. A block of sequences may be running on the device. */
  #inTurn<T>(job: () => Promise<T> | T): Promise<T> {
    const run = this.#job.then(job);
    // Work that a failed job recorded must not be submitted with the next job.
    this.#job = run.catch(() => this.#loaded?.model.recorder.discard());
    return run;
  }

  /** Steps the batcher until no sequence has work. */
  #pump(): void {
    this.#is_wanted = true;
    if (this.#is_pumping || !this.#loaded) return;
    this.#is_pumping = true;
    void (async () => {
      for (let is_busy = true; is_busy || this.#is_wanted;) {
        // Requests that have already arrived are accepted first, so that their prompts run in one batch.
        await hearWhile(() => {
          const is_heard = this.#is_wanted;
          this.#is_wanted = false;
          return is_heard;
        });
        is_busy = await this.#inTurn(() => this.#step());
      }
      this.#is_pumping = false;
    })();
  }

  async #step(): Promise<boolean> {
    if (!this.#loaded || this.#lost) return false;
    try {
      return await this.#loaded.batcher.step();
    } catch (error) {
      this.#loaded.model.recorder.discard();
      this.#loaded.batcher.fail(this.#lost ?? withAdvice(error));
      return false;
    }
  }

  /**
   * Takes and opens the device at the first call. After a failure another device may be requested.
   *
   * @throws {ServiceError} `conflict` for a request for another device; `device_unavailable`.
   */
  async #open(request: DeviceRequest, claim?: DeviceClaim): Promise<Gpu> {
    const key = JSON.stringify(request), take = this.#held.take.bind(this.#held, claim);
    if (this.#opening && this.#device_request !== key) {
      throw new ServiceError("conflict", "Cannot open another device: the engine has one");
    }
    this.#device_request = key;
    this.#opening ??= this.#openGpu({ ...request, take }).catch((error) => {
      this.#opening = null;
      this.#held.close();
      throw error;
    });
    const gpu = await this.#opening;
    if (this.#gpu !== gpu) this.#watch(gpu);
    return this.#gpu = gpu;
  }

  /** After a lost device or an uncaptured error, every request fails with that error. */
  #watch(gpu: Gpu): void {
    const lose = (error: ServiceError) => {
      this.#lost ??= error;
      this.#loaded?.batcher.fail(this.#lost);
    };
    void gpu.device.lost.then(({ reason, message }) => {
      if (reason === "destroyed") return;
      lose(new ServiceError("device_lost", `Cannot go on: the device was lost (${message})`));
    });
    gpu.device.addEventListener("uncapturederror", (event) => {
      const { error } = event as GPUUncapturedErrorEvent;
      const refusal = `Cannot go on: the device refuses a command: ${error.message}`;
      if (!isOutOfMemory(error)) return lose(new ServiceError("internal", refusal));
      lose(outOfMemory("go on", this.#loaded?.allocator.bytes ?? {}));
    });
  }

  async #load(request: LoadRequest): Promise<ModelFacts> {
    if (this.#loaded) throw new ServiceError("conflict", "Cannot load another model: the engine has one");
    const { files = [], max_context, claim } = request, what = `load ${request.path}`;
    const opened = await this.#open(request.device, claim), sizes = loadSizes(request);
    // A probe opens the device without a claim.
    await this.#held.take(claim, opened.facts);
    const gpu = claim && isTuned(claim.tuning, opened.facts) ? await tunedGpu(opened, claim.folder) : opened;
    using file = await openGguf(asChecked(request.path, files));
    refuseUnfit(what, planMemory(file, sizes, gpu), gpu.facts);
    const loaded = await loadModel(gpu, file, request);
    const { allocator, model } = loaded;
    // A tokenizer is read from the metadata, which stays in memory after the file is closed.
    const grammars = new Grammars(() => readTokenizer(file));
    gpu.device.pushErrorScope("out-of-memory");
    let failed: GPUError | null = null;
    try {
      const { trainer, sampler, kv } = createParts(allocator, model, sizes);
      const most = request.demand && { most: adapterCount(request.demand) };
      const built = {
        ...loaded,
        adapters: new Adapters(allocator, model, { base_model: loaded.name, files, ...most }),
        trainer,
        batcher: new Batcher(sampler, { max_context, grammars, claimMemory: () => trainer.release() }, {
          sampled: (sequence, block) => this.#sampled(sequence, block),
          failed: (sequence, error) => this.#failed(sequence, error),
        }),
      };
      failed = await gpu.device.popErrorScope();
      if (failed) throw outOfMemory(what, allocator.bytes);
      this.#loaded = built;
      return modelFacts(loaded, gpu.facts, kv);
    } catch (error) {
      if (!failed) await gpu.device.popErrorScope();
      model.recorder.destroy();
      allocator.destroy();
      throw error;
    }
  }

  #model(): Loaded {
    if (!this.#loaded) throw new ServiceError("conflict", "Cannot do this before a model is loaded");
    return this.#loaded;
  }

  /** For a pass of the trainer, which uses the memory of the cache while no sequence does. */
  #learner(): Loaded {
    const loaded = this.#model();
    loaded.batcher.releaseMemory();
    return loaded;
  }

  #sequence(port: RpcPort, id: number): Sequence {
    const sequence = this.#sequences.get(port)!.get(id);
    if (!sequence) throw new ServiceError("path_not_found", `Cannot use sequence ${id}: it is not open`);
    return sequence;
  }

  #openSequence(request: EngineMethods["sequence_open"]["request"], port: RpcPort): null {
    const { batcher, adapters } = this.#model(), mine = this.#sequences.get(port)!;
    const { sequence: id, tokens } = request;
    if (mine.has(id)) throw new ServiceError("conflict", `Cannot open sequence ${id}: it is open`);
    const adapter = request.adapter === null ? null : adapters.get(request.adapter);
    const parent = request.parent === null ? null : this.#sequence(port, request.parent);
    const sequence = batcher.open({ id, adapter, parent, tokens });
    mine.set(id, sequence);
    this.#owners.set(sequence, { port, id });
    return null;
  }

  #sampled(sequence: Sequence, block: SampledBlock): void {
    const { port, id } = this.#owners.get(sequence)!;
    port.postMessage({ block: { sequence: id, ...block } } satisfies EngineNotice);
  }

  #failed(sequence: Sequence, error: ErrorRecord): void {
    const { port, id } = this.#owners.get(sequence)!;
    port.postMessage({ failed: { sequence: id, error } } satisfies EngineNotice);
  }

  #closeAdapter(name: string): null {
    this.#expectNoSequences(name);
    this.#model().adapters.close(name);
    return null;
  }

  #expectNoSequences(name: string): void {
    const { adapters, batcher } = this.#model();
    const live = batcher.live(adapters.get(name));
    if (live === 0) return;
    throw new ServiceError("conflict", `Cannot change adapter "${name}": ${live} sequences run on it`, {
      live,
    });
  }

  #counters(): EngineCounters {
    const { model, allocator, batcher } = this.#model();
    return {
      ...model.recorder.counters,
      ...batcher.counters,
      kv_pages_used: batcher.store.pages.used,
      kv_pages_total: batcher.store.pages.size,
      bytes: { ...allocator.bytes },
      peak_bytes: allocator.peak,
    };
  }

  #shutdown(): null {
    if (this.#loaded) {
      this.#loaded.batcher.fail(new ServiceError("cancelled", "Cannot go on: the engine was shut down"));
      this.#loaded.model.recorder.destroy();
      this.#loaded.allocator.destroy();
      this.#loaded = null;
    }
    this.#gpu?.device.destroy();
    this.#gpu = null;
    this.#opening = null;
    this.#held.close();
    return null;
  }
}

/** The sizes to allocate at loading. The arrays of a step grow later, because few steps reach the largest size. */
function loadSizes({ demand, ...sizes }: LoadRequest): EngineSizes {
  return { ...sizes, ...(demand && { demand: { ...demand, targets: 0 } }) };
}

let engine: Engine | null = null;

/** Serves the engine of this thread on a port. */
export function serveEngine(port: RpcPort): void {
  engine ??= new Engine();
  engine.serve(port);
}
