/**
 * `svc-server` with runs on a scripted engine: for tests of the process. It has no device. Like the program, it is also
 * the entry of its jobs, and with more arguments than a configuration that of its runs.
 */

import { endProcess } from "../cli/end_process.ts";
import { isJobProcess, serveJobProcess } from "../cli/job_entry.ts";
import { serve } from "../cli/serve.ts";
import { processTerminal } from "../cli/terminal.ts";
import { runScripted } from "./scripted_run.ts";

/** In the worker that looks for devices. */
function answerNoDevice(): void {
  const scope = globalThis as unknown as Worker & { close(): void };
  scope.postMessage({ probed: [] });
  scope.close();
}

if ("WorkerGlobalScope" in globalThis) answerNoDevice();
else if (isJobProcess()) await serveJobProcess();
else if (Deno.args.length > 1) await runScripted();
else {
  const terminal = processTerminal("svc-server");
  endProcess(await serve(Deno.args[0]!, { entry_url: import.meta.url, terminal }));
}
