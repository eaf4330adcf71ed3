/** What the server asks of the process that serves a model. The calls are those of `core/rpc.ts`, as JSON lines. */

import type { RunConfig } from "../../config/schema.ts";
import type { RpcMethods } from "../../core/rpc.ts";
import type { LoadRequest, ModelFacts } from "../../trainer/protocol/protocol.ts";
import type { ChatEvent, ChatRequest } from "../chat/chat_request.ts";
import { MAX_CHOICES } from "../chat/chat_request.ts";

/** The sequences that are sampled at once; every choice is one. */
export const SERVED_SEQUENCES = MAX_CHOICES;

/** Adapters that stay open. Those that no answer uses make room, the one that was used longest ago first. */
export const OPEN_ADAPTERS = 8;

/** What says how conversations are rendered. */
export interface Rendering {
  model: Pick<RunConfig["model"], "path" | "chat_template">;
  /** For the template. */
  variables: Readonly<Record<string, unknown>>;
}

/** An adapter's file. */
export interface AdapterFile {
  path: string;
  /** Differs when the file is another one. */
  version: string;
}

/** Where conversations are recorded. */
export interface RecordingPlace {
  /** An observe directory. */
  directory: string;
  name: string;
}

export interface LoadedBase {
  load: LoadRequest;
  /** The folder with the adapters. */
  adapters: string;
}

export interface ServedChat {
  request: ChatRequest;
  rendering: Rendering;
  /** Null: the base model. */
  adapter: AdapterFile | null;
  recording: RecordingPlace | null;
}

/** The methods of the process. `load` comes first, and once. */
export interface ModelMethods extends RpcMethods {
  load(request: LoadedBase, signal: AbortSignal): Promise<ModelFacts>;
  chat(request: ServedChat, signal: AbortSignal): AsyncGenerator<ChatEvent, null, void>;
}
