/** A process for jobs: answers the requests on its standard input, one after the other. */

import { errorRecord } from "../../core/errors.ts";
import type { JobAnswerLine, JobLine } from "./job_process.ts";
import { JOB_WORK } from "./job_work.ts";

/** Answers until the input ends, as it also does when the server is gone. */
export async function serveJobs(): Promise<void> {
  const decoder = new TextDecoderStream() as unknown as TransformStream<Uint8Array, string>;
  let working = Promise.resolve(), rest = "";
  for await (const text of Deno.stdin.readable.pipeThrough(decoder)) {
    const lines = (rest + text).split("\n");
    rest = lines.pop()!;
    for (const line of lines) working = working.then(() => answer(JSON.parse(line)));
  }
  Deno.exit(0);
}

async function answer({ name, request }: JobLine): Promise<void> {
  let line: JobAnswerLine;
  try {
    line = { answer: await JOB_WORK[name](request as never) };
  } catch (error) {
    line = { error: errorRecord(error) };
  }
  const bytes = new TextEncoder().encode(`${JSON.stringify(line)}\n`);
  for (let at = 0; at < bytes.length;) at += await Deno.stdout.write(bytes.subarray(at));
}
