/** Runs llama.cpp, an independent implementation to compare with, in its own process. */

import { fileURLToPath } from "node:url";

const FOLDER = fileURLToPath(new URL("llama_cpp", import.meta.url));

export interface GreedyRequest {
  model_path: string;
  /** A GGUF adapter at scale 1; null for none. */
  adapter_path: string | null;
  /** Token ids; every prompt starts at position 0. */
  prompts: number[][];
  /** End tokens do not stop decoding. */
  max_new_tokens: number;
}

/** A prompt's continuation, and the lead of each token's logit over the second best. */
export interface GreedyRun {
  tokens: number[];
  margins: number[];
}

/** Why llama.cpp cannot run here, or null when it can. */
export function llamaCppMissing(): string | null {
  try {
    Deno.statSync(`${FOLDER}/node_modules/node-llama-cpp`);
    return null;
  } catch {
    return "node-llama-cpp is not installed, ./dev test installs it on Linux x86_64 with npm";
  }
}

interface TokenizeRequest {
  /** A model or a vocabulary. */
  model_path: string;
  texts: string[];
  /** Whether control tokens are parsed. */
  special: boolean;
}

/** By text: its ids, without begin or end token, and the text of these ids. */
export interface Tokenized {
  ids: number[][];
  decoded: string[];
}

/**
 * Decodes greedily with llama.cpp, one continuation for each prompt. @throws When llama.cpp refuses the model or the
 * adapter.
 */
export async function decodeGreedily(request: GreedyRequest): Promise<GreedyRun[]> {
  const { runs } = await runProgram("greedy.mjs", "decode", request) as { runs: GreedyRun[] };
  return runs;
}

/** Tokenizes with llama.cpp. @throws When llama.cpp refuses the vocabulary or a text. */
export async function tokenizeTexts(request: TokenizeRequest): Promise<Tokenized> {
  return await runProgram("tokenize.mjs", "tokenize", request) as Tokenized;
}

export interface QuantizeRequest {
  /** A model of any types. */
  from: string;
  to: string;
  /** As in `general.file_type`: llama.cpp's `LLAMA_FTYPE_MOSTLY_*`. */
  file_type: number;
}

/**
 * Writes a model in other types as llama.cpp's `llama-quantize` does, without an importance matrix. @throws When llama.cpp
 * refuses.
 */
export async function quantizeModel(request: QuantizeRequest): Promise<void> {
  await runProgram("quantize.mjs", "quantize", request);
}

export interface SpeedRequest {
  model_path: string;
  /** A GGUF adapter at scale 1. */
  adapter_path: string;
  threads: number;
  /** Of each measurement, after one that is left out; the fastest counts. */
  repetitions: number;
  prefills: { sequences: number; tokens: number }[];
  /** Sequences that draw `tokens` tokens at the same time, after prompts of their own. */
  decodes: { sequences: number; prompt: number; tokens: number }[];
}

/** Tokens per second, in the order of the request. */
export interface Speeds {
  prefills: number[];
  decodes: number[];
}

/** Measures llama.cpp on the processor. @throws When llama.cpp refuses the model or the adapter. */
export async function measureSpeeds(request: SpeedRequest): Promise<Speeds> {
  return await runProgram("speed.mjs", "measure", request) as Speeds;
}

async function runProgram(file: string, verb: string, request: unknown): Promise<unknown> {
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-config", "--node-modules-dir=manual", file],
    cwd: FOLDER,
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const output = child.output();
  const writer = child.stdin.getWriter();
  await writer.write(new TextEncoder().encode(JSON.stringify(request)));
  await writer.close();
  const { code, stdout, stderr } = await output;
  if (code !== 0) {
    throw new Error(`Cannot ${verb} with llama.cpp: ${new TextDecoder().decode(stderr)}`);
  }
  return JSON.parse(new TextDecoder().decode(stdout));
}
