/** The adapters that are open in an engine. */

import { assert } from "../../core/errors.ts";
import type { EngineClient } from "../../trainer/protocol/client.ts";
import { checkAdapter } from "../directory/checked_adapter.ts";
import { loadCheckpoint } from "../directory/checkpoint.ts";
import type { AdapterFile } from "./protocol.ts";

interface OpenAdapter {
  name: string;
  opening: Promise<unknown>;
  users: number;
}

/** Opens adapters when they are needed. At most `limit` are open at a time. */
export class OpenAdapters {
  /** By file, the one that was used longest ago first. */
  readonly #open = new Map<string, OpenAdapter>();
  readonly #engine: EngineClient;
  readonly #limit: number;
  #opened = 0;

  /** @param limit At least the number of answers at a time: each may need its own adapter. */
  constructor(engine: EngineClient, limit: number) {
    this.#engine = engine;
    this.#limit = limit;
  }

  /** Runs work with the engine's name of an adapter, which stays open until the work ends; null is the base model. */
  async *use<T>(
    file: AdapterFile | null,
    work: (adapter: string | null) => AsyncGenerator<T, void>,
  ): AsyncGenerator<T, void> {
    if (!file) return yield* work(null);
    const key = `${file.path} ${file.version}`;
    const adapter = this.#open.get(key) ?? this.#add(file);
    // Inserting it again makes it the newest of the map.
    this.#open.delete(key);
    this.#open.set(key, adapter);
    adapter.users++;
    try {
      await adapter.opening;
      yield* work(adapter.name);
    } catch (error) {
      const is_broken = await adapter.opening.then(() => false, () => true);
      if (is_broken && this.#open.get(key) === adapter) this.#open.delete(key);
      throw error;
    } finally {
      adapter.users--;
    }
  }

  /** Opens a file after its check. A checkpoint's adapter is checked with the other files of the checkpoint. */
  #add({ path, checkpoint }: AdapterFile): OpenAdapter {
    const closing = this.#open.size >= this.#limit ? this.#closeOldest() : Promise.resolve();
    const name = `served_${++this.#opened}`;
    const opening = closing.then(async () => {
      await (checkpoint === null ? checkAdapter(path) : loadCheckpoint(checkpoint));
      await this.#engine.call("adapter_open", { adapter: name, source: { type: "file", path } });
    });
    opening.catch(() => {});
    return { name, opening, users: 0 };
  }

  #closeOldest(): Promise<unknown> {
    const oldest = [...this.#open].find(([, { users }]) => users === 0);
    assert(oldest, "there are more open adapters than answers");
    const [key, { name, opening }] = oldest;
    this.#open.delete(key);
    return opening.then(() => this.#engine.call("adapter_close", { adapter: name }), () => {});
  }
}
