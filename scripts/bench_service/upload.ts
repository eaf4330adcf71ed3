/** A large upload: its rate, and the server's memory while it arrives. */

import { memoryOf, type TrainingServer } from "./training_server.ts";

export interface UploadResult {
  bytes: number;
  seconds: number;
  /** How much the server's memory rose at most. */
  rise_bytes: number;
}

const PIECE_BYTES = 1 << 20;
const SAMPLE_MS = 100;

/** Uploads rows of text of this size, and deletes the dataset again. */
export async function measureUpload({ url, server }: TrainingServer, bytes: number): Promise<UploadResult> {
  const line = `${JSON.stringify({ text: "Once there was a cat. ".repeat(46) })}\n`;
  const piece = new TextEncoder().encode(line.repeat(Math.floor(PIECE_BYTES / line.length)));
  let left = Math.ceil(bytes / piece.length), number = 0;
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      if (left-- === 0) return controller.close();
      // Equal bytes would be the dataset of the repetition before.
      const own = piece.slice();
      new TextEncoder().encodeInto(String(number++ + Date.now()).slice(-9), own.subarray(10));
      controller.enqueue(own);
    },
  });
  const before = await memoryOf(server.child.pid), started = performance.now();
  let most = before.now;
  const timer = setInterval(async () => {
    most = Math.max(most, (await memoryOf(server.child.pid)).now);
  }, SAMPLE_MS);
  try {
    const headers = { "content-type": "application/x-ndjson" };
    const response = await fetch(`${url}/v1/datasets?name=bench&kind=sft`, { method: "POST", headers, body });
    const card = await response.json();
    if (!response.ok) throw new Error(`The upload was refused: ${JSON.stringify(card)}`);
    const seconds = (performance.now() - started) / 1000;
    await (await fetch(`${url}/v1/datasets/${card.id}`, { method: "DELETE" })).body?.cancel();
    return { bytes: card.size_bytes ?? bytes, seconds, rise_bytes: most - before.now };
  } finally {
    clearInterval(timer);
  }
}
