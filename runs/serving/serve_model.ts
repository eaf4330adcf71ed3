/** The process that serves a model: it has the engine with the base, opens adapters, and answers chats. */

import { ServiceError } from "../../core/errors.ts";
import { serveRpc } from "../../core/rpc.ts";
import { Semaphore } from "../../core/semaphore.ts";
import type { EngineClient } from "../../trainer/protocol/client.ts";
import { answerChat, type ChatRecorder } from "../chat/answer_chat.ts";
import type { ChatEvent } from "../chat/chat_request.ts";
import { Conversations } from "../chat/conversations.ts";
import { loadModelParts, type ModelParts } from "../session/model_parts.ts";
import { type EngineHandle, startEngine } from "../session/workers.ts";
import type { LinePort } from "./line_port.ts";
import { OpenAdapters } from "./open_adapters.ts";
import {
  type LoadedBase,
  type ModelMethods,
  OPEN_ADAPTERS,
  type RecordingPlace,
  type Rendering,
  SERVED_SEQUENCES,
  type ServedChat,
} from "./protocol.ts";

/** Renderings that are kept: template, tokenizer and variables. */
const KEPT_PARTS = 8;

export interface ServeModelOptions {
  port: LinePort;
  /** Starts the engine, which may read these files and folders. */
  startEngine: (reads: readonly string[]) => Pick<EngineHandle, "client" | "failed" | "close">;
}

const NOTHING = { net: false, run: false, write: false, ffi: false, sys: false, import: false } as const;

/** The engine in a worker of this program. */
export function engineWorker(entry_url: string): ServeModelOptions["startEngine"] {
  return (reads) =>
    startEngine({ entry_url, permissions: { ...NOTHING, env: ["DENO_WEBGPU_BACKEND"], read: [...reads] } });
}

/** Serves until the server closes the pipe, or the engine is lost. @returns Whether the engine is whole. */
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
}

class ModelServer {
  readonly #options: ServeModelOptions;
  readonly #lost = Promise.withResolvers<void>();
  /** The rows of the decode batch; every choice takes one. */
  readonly #rows = new Semaphore(SERVED_SEQUENCES);
  readonly #parts = new Map<string, Promise<ModelParts>>();
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

  async load({ load, adapters }: LoadedBase) {
    const handle = this.#handle = this.#options.startEngine([load.path, adapters]);
    handle.failed.then(() => this.#lost.resolve());
    const facts = await handle.client.call("load", load);
    const { client: engine } = handle, { max_context } = load;
    this.#loaded = { engine, adapters: new OpenAdapters(engine, OPEN_ADAPTERS), max_context };
    return facts;
  }

  async *chat(chat: ServedChat, signal: AbortSignal): AsyncGenerator<ChatEvent, null> {
    if (!this.#loaded) throw new ServiceError("internal", "Cannot answer: no model is loaded");
    const { engine, adapters, max_context } = this.#loaded;
    const { request, rendering, adapter: file, recording } = chat;
    const model = await this.#partsOf(rendering);
    const recorder = recording && await this.#recorderOf(recording, { model, file });
    try {
      using _ = await this.#rows.hold(request.choices, signal);
      yield* adapters.use(file, (adapter) => {
        const context = { engine, model, adapter, max_context, at_once: SERVED_SEQUENCES, recorder };
        return answerChat(request, context, signal);
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

  #partsOf(rendering: Rendering): Promise<ModelParts> {
    const { model, variables } = rendering;
    return kept(this.#parts, JSON.stringify(rendering), () => loadModelParts(model, variables));
  }

  async #recorderOf(
    place: RecordingPlace,
    { model, file }: { model: ModelParts; file: ServedChat["adapter"] },
  ): Promise<ChatRecorder> {
    const known = this.#recorded.get(place.directory) ?? Conversations.open(place);
    this.#recorded.set(place.directory, known);
    return (await known).recorder(model, file?.version ?? "");
  }
}

/** A value by key, made once; of too many the oldest is forgotten, and what failed is made again. */
function kept<T>(values: Map<string, Promise<T>>, key: string, make: () => Promise<T>): Promise<T> {
  const known = values.get(key);
  if (known) return known;
  const made = make();
  values.set(key, made);
  made.catch(() => values.delete(key));
  if (values.size > KEPT_PARTS) values.delete(values.keys().next().value!);
  return made;
}
