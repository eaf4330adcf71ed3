/** The process that serves a model: it starts the engine, loads the base, opens adapters, and answers chats. */

import { loadRunConfig } from "../../config/check/load.ts";
import { templateVariables } from "../../config/check/own_section.ts";
import type { RunConfig } from "../../config/schema.ts";
import { deviceClaim } from "../../core/device_lock.ts";
import { ServiceError } from "../../core/errors.ts";
import { type CheckedFile, withCheckedFiles } from "../../core/regular_file.ts";
import { serveRpc } from "../../core/rpc.ts";
import { Semaphore } from "../../core/semaphore.ts";
import type { WebGpuName } from "../../core/webgpu_providers.ts";
import type { EngineClient } from "../../trainer/protocol/client.ts";
import { answerChat, type ChatRecorder } from "../chat/answer_chat.ts";
import type { ChatEvent } from "../chat/chat_request.ts";
import { Conversations } from "../chat/conversations.ts";
import { clientFiles } from "../directory/client_files.ts";
import { inputFingerprints } from "../directory/config_identity.ts";
import { MODEL_INPUTS, refuseOtherInputs } from "../directory/same_inputs.ts";
import { PROCESS_CONFIG } from "../fleet/service_record.ts";
import { loadModelParts, type ModelParts } from "../session/model_parts.ts";
import { enginePermissions } from "../session/session.ts";
import { type EngineHandle, startEngine } from "../session/workers.ts";
import type { LinePort } from "./line_port.ts";
import { OpenAdapters } from "./open_adapters.ts";
import type { LoadedBase, ModelMethods, RecordingPlace, ServedChat, ServedRun } from "./protocol.ts";

/** The number of runs whose template, tokenizer and variables are kept. */
const KEPT_RUNS = 8;

export interface ServeModelOptions {
  port: LinePort;
  /** Starts the engine, which may use this WebGPU and read these files and folders. */
  startEngine: (
    webgpu: WebGpuName,
    reads: readonly string[],
  ) => Pick<EngineHandle, "client" | "failed" | "close">;
}

/** The engine in a worker of this program. */
export function engineWorker(entry_url: string): ServeModelOptions["startEngine"] {
  return (webgpu, read) => startEngine({ entry_url, permissions: enginePermissions(webgpu, { read }) });
}

/** Serves until the server closes the pipe, or the engine is lost. @returns Whether the engine still works. */
export async function serveModel(options: ServeModelOptions): Promise<boolean> {
  const server = new ModelServer(options);
  const methods: ModelMethods = {
    load: (request) => server.load(request),
    chat: (request, signal) => server.chat(request, signal),
  };
  serveRpc(options.port, methods);
  const lost = await Promise.race([options.port.ended.then(() => false), server.lost.then(() => true)]);
  await server.close();
  return !lost;
}

interface Loaded {
  engine: EngineClient;
  adapters: OpenAdapters;
  max_context: number;
  /** The rows of the decode batch; every choice takes one. */
  rows: Semaphore;
  /** Of the model's file. */
  fingerprint: string;
}

/** The parts of a run that serving reads from its folder. */
interface ReadRun {
  model: RunConfig["model"];
  parts: ModelParts;
  /** Of the model's file. */
  fingerprint: string;
  /** The model's files as they were checked. */
  files: readonly CheckedFile[];
}

class ModelServer {
  readonly #options: ServeModelOptions;
  readonly #lost = Promise.withResolvers<void>();
  /** By directory. */
  readonly #runs = new Map<string, Promise<ReadRun>>();
  /** By directory. */
  readonly #recorded = new Map<string, Promise<Conversations>>();
  #handle: ReturnType<ServeModelOptions["startEngine"]> | null = null;
  #loaded: Loaded | null = null;

  constructor(options: ServeModelOptions) {
    this.#options = options;
  }

  /** Resolves when the engine has failed. */
  get lost(): Promise<void> {
    return this.#lost.promise;
  }

  async load({ run, load, adapters }: LoadedBase) {
    const { model: { path }, fingerprint, files } = await this.#read(run);
    const handle = this.#handle = this.#options.startEngine(load.device.webgpu, [path, adapters]);
    handle.failed.then(() => this.#lost.resolve());
    const claim = deviceClaim("serving", null);
    const facts = await handle.client.call("load", { ...load, path, files, claim });
    const { client: engine } = handle, { max_context, max_sequences } = load;
    this.#loaded = {
      ...{ engine, max_context, fingerprint },
      adapters: new OpenAdapters(engine, max_sequences),
      rows: new Semaphore(max_sequences),
    };
    return facts;
  }

  async *chat(chat: ServedChat, signal: AbortSignal): AsyncGenerator<ChatEvent, null> {
    if (!this.#loaded) throw new ServiceError("internal", "Cannot answer: no model is loaded");
    const { engine, adapters, max_context, rows, fingerprint } = this.#loaded;
    const { request, adapter: file, recording } = chat;
    const { parts: model, fingerprint: own } = await this.#read(chat.run);
    if (own !== fingerprint) {
      const message = "Cannot answer: the model's file is not the one that is loaded";
      throw new ServiceError("conflict", message, { changed: ["model.path"] });
    }
    const recorder = recording && await this.#recorderOf(recording, { model, file });
    try {
      const at_once = rows.total;
      using _ = await rows.hold(Math.min(request.choices, at_once), signal);
      yield* adapters.use(file, (adapter) => {
        return answerChat(request, { engine, model, adapter, max_context, at_once, recorder }, signal);
      });
      return null;
    } catch (error) {
      if (error instanceof ServiceError && error.code === "device_lost") this.#lost.resolve();
      throw error;
    }
  }

  async close(): Promise<void> {
    await this.#handle?.close();
  }

  #read({ directory }: ServedRun): Promise<ReadRun> {
    const reading = kept(this.#runs, directory, () => readRun(directory));
    if (this.#runs.size > KEPT_RUNS) this.#runs.delete(this.#runs.keys().next().value!);
    return reading;
  }

  async #recorderOf(
    place: RecordingPlace,
    { model, file }: { model: ModelParts; file: ServedChat["adapter"] },
  ): Promise<ChatRecorder> {
    const opening = kept(this.#recorded, place.directory, () => Conversations.open(place));
    return (await opening).recorder(model, file?.version ?? "");
  }
}

/**
 * Reads what a run's conversations are rendered with.
 *
 * @throws {ServiceError} `conflict` with `details.changed` when its model's files are not those that it trained with;
 * `path_not_found` when the path of one has become a link.
 */
async function readRun(directory: string): Promise<ReadRun> {
  // Serving needs no data files, so they are allowed to be gone.
  const { config } = await loadRunConfig(`${directory}/${PROCESS_CONFIG}`, { check_paths: false });
  const files = await clientFiles(config, MODEL_INPUTS);
  return await withCheckedFiles(files, async () => {
    const parts = await loadModelParts(config.model, templateVariables(config));
    const identity = await inputFingerprints(config, MODEL_INPUTS);
    await refuseOtherInputs("answer", { checkpoints: `${directory}/checkpoints`, identity });
    return { model: config.model, parts, files, fingerprint: identity["model.path"]! };
  });
}

/** A value by key. It is made once; after a failure, the next call makes it again. */
function kept<T>(values: Map<string, Promise<T>>, key: string, make: () => Promise<T>): Promise<T> {
  const known = values.get(key);
  if (known) return known;
  const made = make();
  values.set(key, made);
  made.catch(() => values.delete(key));
  return made;
}
