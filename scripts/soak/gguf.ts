/** Reads mutated models as the server does for its list of models, and times each. */

import { errorRecord, ServiceError } from "../../core/errors.ts";
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
  const { dev, ino } = await Deno.stat(path);
  try {
    const [described] = await describeModels({ files: [{ path, dev, ino }] });
    return described!.kind ?? described!.error.code;
  } catch (error) {
    const { code, message } = errorRecord(error);
    return error instanceof ServiceError ? code : `${code}: ${message}`;
  }
}

/** F2: a malformed model is a structured error, soon, in bounded memory. */
export const gguf: SoakPart = {
  what: "reads 100,000 mutated models and adapters",
  full: { count: 100_000, minutes: Infinity },
  async run({ count, seed, say }) {
    const seeds = await Promise.all(SEEDS.map(seedOf));
    const times: number[] = [], read: Record<string, number> = {}, failures: string[] = [];
    let rss = 0;
    await withFolder(async (folder) => {
      const path = `${folder}/model.gguf`;
      for (let i = 0; i < count; i++) {
        const { head, header_bytes, size_bytes } = seeds[i % seeds.length]!;
        const mutant = mutateGguf(head, header_bytes, seed * count + i);
        await Deno.writeFile(path, mutant);
        // The tensors are a hole in the file, unless the end was cut off.
        if (mutant.length >= head.length) await Deno.truncate(path, size_bytes + mutant.length - head.length);
        const started = performance.now(), found = await readAs(path), ms = performance.now() - started;
        const is_known = ["model", "adapter", "format_invalid"].includes(found);
        if (!is_known) failures.push(`mutation ${i} of ${SEEDS[i % seeds.length]}: ${found.slice(0, 300)}`);
        // A model that can be read is tokenised with, too: that takes longer, and is a job with limits on the server.
        const is_refused = found === "format_invalid";
        if (is_refused && ms > LIMIT_MS) {
          failures.push(`mutation ${i} of ${SEEDS[i % seeds.length]}: ${Math.round(ms)} ms`);
        }
        if (is_refused) times.push(ms);
        rss = Math.max(rss, Deno.memoryUsage().rss);
        const kind = is_known ? found : "failure";
        read[kind] = (read[kind] ?? 0) + 1;
        if ((i + 1) % 1000 === 0) say(`${i + 1} of ${count} files`);
      }
    });
    if (rss > LIMIT_BYTES) failures.push(`${Math.round(rss / 1e6)} MB of memory`);
    const [p50, p99, max] = [0.5, 0.99, 1].map((share) => rounded(percentile(times, share)));
    return { failures: firstOf(failures), read, refused_ms: { p50, p99, max }, rss_bytes: rss };
  },
};
