/** Reads mutated models as the server does for its list of models, and times each. */

import { errorRecord, ServiceError } from "../../core/errors.ts";
import { checkedFile } from "../../core/regular_file.ts";
import { describeModels } from "../../runs/models/describe_models.ts";
import { fixturePath } from "../../tests/fixture.ts";
import { withFolder } from "../../tests/folder.ts";
import { openGguf } from "../../trainer/formats/gguf.ts";
import { mutateGguf } from "../../trainer/formats/gguf_mutations_testing.ts";
import { firstOf, percentile, rounded, type SoakPart } from "./part.ts";

const SEEDS = [
  "models/tiny-agent-f16.gguf",
  "models/tiny-agent-q8_0.gguf",
  "models/tinystories-656k-llama-q4_0.gguf",
  "models/tinystories-656k-qwen2-q8_0.gguf",
  "models/stories260k.gguf",
  "models/tiny-agent/golden-lora/golden-lora.gguf",
];

const LIMIT_MS = 100, LIMIT_BYTES = 300e6;
/** A file that took longer is read so often again: the least time is the file's, the rest is the machine's. */
const READ_AGAIN = 4;

/** A model's header with the first bytes of its tensors, and the size of the file. */
interface SeedFile {
  head: Uint8Array;
  header_bytes: number;
  size_bytes: number;
}

async function seedOf(name: string): Promise<SeedFile> {
  const path = await fixturePath(name), { size: size_bytes } = await Deno.stat(path);
  using file = await openGguf(path);
  const header_bytes = Math.min(...[...file.tensors.values()].map(({ offset }) => offset));
  return { head: (await Deno.readFile(path)).subarray(0, header_bytes + 64), header_bytes, size_bytes };
}

/** What a file is read as: `model`, `adapter`, a code, or the failure of the reader. */
async function readAs(path: string): Promise<string> {
  try {
    const [described] = await describeModels({ files: [await checkedFile(await Deno.realPath(path))] });
    return described!.kind ?? described!.error.code;
  } catch (error) {
    const { code, message } = errorRecord(error);
    return error instanceof ServiceError ? code : `${code}: ${message}`;
  }
}

interface Reading {
  found: string;
  ms: number;
}

/** @param patient Whether a file that took long is read again. */
async function timed(path: string, patient = true): Promise<Reading> {
  const started = performance.now(), found = await readAs(path), ms = performance.now() - started;
  if (ms <= LIMIT_MS || !patient) return { found, ms };
  const again: Reading[] = [];
  for (let i = 0; i < READ_AGAIN; i++) again.push(await timed(path, false));
  return { found, ms: Math.min(ms, ...again.map(({ ms }) => ms)) };
}

const shares = (times: readonly number[]) => {
  const [p50, p99, max] = [0.5, 0.99, 1].map((share) => rounded(percentile(times, share)));
  return { p50, p99, max };
};

/** F2: a malformed model is a structured error, soon, in bounded memory. */
export const gguf: SoakPart = {
  what: "reads 100,000 mutated models and adapters",
  full: { count: 100_000, minutes: Infinity },
  async run({ count, minutes, seed, say }) {
    const started = performance.now(), seeds = await Promise.all(SEEDS.map(seedOf));
    const times: Record<string, number[]> = {}, failures: string[] = [];
    let rss_bytes = 0;
    await withFolder(async (folder) => {
      const path = `${folder}/model.gguf`;
      for (let i = 0; i < count && performance.now() - started < minutes * 60_000; i++) {
        const { head, header_bytes, size_bytes } = seeds[i % seeds.length]!;
        const mutant = mutateGguf(head, header_bytes, seed * count + i);
        await Deno.writeFile(path, mutant);
        // The tensors are a hole in the file, unless the end was cut off.
        if (mutant.length >= head.length) await Deno.truncate(path, size_bytes + mutant.length - head.length);
        const { found, ms } = await timed(path), name = `mutation ${i} of ${SEEDS[i % seeds.length]}`;
        const is_known = ["model", "adapter", "format_invalid"].includes(found);
        if (!is_known) failures.push(`${name}: ${found.slice(0, 300)}`);
        if (ms > LIMIT_MS) failures.push(`${name}: ${found} after ${Math.round(ms)} ms`);
        (times[is_known ? found : "failure"] ??= []).push(ms);
        rss_bytes = Math.max(rss_bytes, Deno.memoryUsage().rss);
        if ((i + 1) % 1000 === 0) say(`${i + 1} of ${count} files`);
      }
    });
    if (rss_bytes > LIMIT_BYTES) failures.push(`${Math.round(rss_bytes / 1e6)} MB of memory`);
    const read = Object.entries(times).map(([kind, ms]) => [kind, { files: ms.length, ms: shares(ms) }]);
    return { failures: firstOf(failures), read: Object.fromEntries(read), rss_bytes };
  },
};
