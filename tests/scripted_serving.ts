/**
 * The process that serves a model, on a scripted engine: for tests of whoever starts it. Its answers are those of
 * `script.json` in the folder of the adapters: a list of `{"prompt": <part of the prompt's text>, "text": …}`, of which
 * the first that fits answers; `"hang": true` answers nothing until it is cancelled, and `"fails": true` fails after the
 * text. Without one that fits, the engine samples. Each request to the engine is a line of `engine.log` there. With a
 * file `hangs` that says `load` or `close`, the engine never answers that; with a file `full` the device refuses memory.
 */

import { existsSync } from "node:fs";
import { linePort, writeOutput } from "../runs/serving/line_port.ts";
import { serveModel } from "../runs/serving/serve_model.ts";
import { outOfMemory } from "../trainer/engine/memory_advice.ts";
import type { LoadRequest } from "../trainer/protocol/protocol.ts";
import { ScriptedEngine } from "../trainer/engine/scripted_engine_fake.ts";
import { openGguf } from "../trainer/formats/gguf.ts";
import { readTokenizer } from "../trainer/tokenizer/read_tokenizer.ts";
import type { Tokenizer } from "../trainer/tokenizer/tokenizer.ts";

interface Line {
  prompt: string;
  text?: string;
  hang?: boolean;
  fails?: boolean;
}

/** Waits until the process is killed: with nothing to wait for it would end by itself. */
function hang(): Promise<never> {
  return new Promise(() => void setInterval(() => {}, 1e9));
}

function hangs(folder: string, at: "load" | "close"): boolean {
  const file = `${folder}/hangs`;
  return existsSync(file) && Deno.readTextFileSync(file) === at;
}

/** An engine whose vocabulary is that of the model which it is told to load. */
function scriptedEngine(folder: string) {
  let tokenizer: Tokenizer | null = null;
  const script = (tokens: readonly number[]) => {
    const prompt = tokenizer!.decode(tokens, { special: true });
    const file = `${folder}/script.json`;
    const lines: Line[] = existsSync(file) ? JSON.parse(Deno.readTextFileSync(file)) : [];
    const line = lines.find((line) => prompt.includes(line.prompt));
    if (!line) return undefined;
    if (line.hang) return "hang";
    const end = line.fails ? [] : [tokenizer!.end_ids.at(-1)!];
    return [...tokenizer!.encode(line.text!, { special: true }), ...end];
  };
  const log = (method: string, request: unknown) => {
    const line = `${JSON.stringify({ method, request })}\n`;
    Deno.writeTextFileSync(`${folder}/engine.log`, line, { append: true });
  };
  const engine = new ScriptedEngine({
    vocabulary: 1024,
    script: ({ tokens }) => script(tokens),
    refuse: log,
  });
  const call = engine.client.call.bind(engine.client);
  engine.client.call = async (method, request) => {
    if (method === "load") {
      if (hangs(folder, "load")) {
        log(method, request);
        return await hang();
      }
      if (existsSync(`${folder}/full`)) throw outOfMemory("load the model", { weights: 3e9, kv: 1e9 });
      using file = await openGguf((request as LoadRequest).path);
      tokenizer = readTokenizer(file);
    }
    return await call(method, request);
  };
  return engine.client;
}

const port = linePort(Deno.stdin.readable, writeOutput);
await serveModel({
  port,
  startEngine: (_webgpu, [_model, folder]) => ({
    client: scriptedEngine(folder!),
    failed: new Promise(() => {}),
    close: () => hangs(folder!, "close") ? hang() : Promise.resolve(),
  }),
});
Deno.exit(0);
