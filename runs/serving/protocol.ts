/** The calls from the server to the process that serves a model: calls of `core/rpc.ts`, as JSON lines. */

import type { RpcMethods } from "../../core/rpc.ts";
import type { LoadRequest, ModelFacts } from "../../trainer/protocol/protocol.ts";
import type { ChatEvent, ChatRequest } from "../chat/chat_request.ts";

/** A run of the server. Its folder says which files it was trained with. */
export interface ServedRun {
  directory: string;
}

/** An adapter's file. */
export interface AdapterFile {
  path: string;
  /** Changes when the file is replaced or written. */
  version: string;
  /** The folder of its checkpoint, whose bytes are verified; null for the result of a run. */
  checkpoint: string | null;
}

/** Where conversations are recorded. */
export interface RecordingPlace {
  /** An observe directory. */
  directory: string;
  name: string;
}

export interface LoadedBase {
  /** The run that names the model's file. */
  run: ServedRun;
  load: Omit<LoadRequest, "path">;
  /** The folder with the adapters. */
  adapters: string;
}

export interface ServedChat {
  request: ChatRequest;
  run: ServedRun;
  /** Null: the base model. */
  adapter: AdapterFile | null;
  recording: RecordingPlace | null;
}

/** The methods of the process. `load` is called first, and only once. */
export interface ModelMethods extends RpcMethods {
  load(request: LoadedBase, signal: AbortSignal): Promise<ModelFacts>;
  chat(request: ServedChat, signal: AbortSignal): AsyncGenerator<ChatEvent, null, void>;
}
