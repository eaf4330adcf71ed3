#!/usr/bin/env -S deno run -A
/**
 * `svc`: the command line. The same file is the entry of a run's workers, named `engine` and `agent`, of the device
 * probe's, of the processes of jobs, and of the process that serves a model, so that one file works the same from source,
 * bundled and compiled. Started under the name `svc-server` the compiled binary is `svc server`.
 */

import { bufferMessages } from "./cli/buffered_messages.ts";
import { endProcess } from "./cli/end_process.ts";
import { prepareGpuEnvironment } from "./cli/environment.ts";
import { isJobProcess, serveJobProcess } from "./cli/job_entry.ts";
import { isServingProcess, runServingProcess } from "./cli/serving_entry.ts";
import { onStopSignal } from "./cli/signals.ts";
import { svcArguments } from "./cli/svc_arguments.ts";

async function main(): Promise<number> {
  const [{ runCli }, { processTerminal }, { systemClock }] = await Promise.all([
    import("./cli/program.ts"),
    import("./cli/terminal.ts"),
    import("./core/clock.ts"),
  ]);
  const entry_url = import.meta.url;
  const terminal = processTerminal();
  return await runCli(svcArguments(), {
    terminal,
    clock: systemClock,
    // A wrapper such as ./dev sets the name under which it was started.
    command_name: Deno.env.get("SVC_COMMAND") || "svc",
    async startRun({ control, ...options }) {
      const { startRun } = await import("./runs/process/process.ts");
      const { streamPort } = await import("./runs/process/control.ts");
      const port = control ? { control: streamPort(Deno.stdin.readable, Deno.stdout) } : {};
      return await startRun({ ...options, ...port, entry_url });
    },
    async evaluate(options) {
      const { evaluateInWorkers } = await import("./cli/evaluate.ts");
      return await evaluateInWorkers(options, entry_url);
    },
    async *collect(options) {
      if (options.api) {
        const { collectByApi } = await import("./cli/collect_by_api.ts");
        return yield* collectByApi(options);
      }
      const { collectInWorkers } = await import("./cli/collect_attempts.ts");
      yield* collectInWorkers(options, entry_url);
    },
    async openJudgeModel(loaded) {
      const { openJudgeModel } = await import("./cli/judge_model.ts");
      return await openJudgeModel(loaded, entry_url);
    },
    async answer(what, loaded) {
      const { streamPort } = await import("./runs/process/control.ts");
      const control = streamPort(Deno.stdin.readable, Deno.stdout);
      const { startCalibration } = await import("./runs/process/calibrate.ts");
      const { startProbe } = await import("./runs/process/probe.ts");
      await (what === "probe" ? startProbe : startCalibration)(loaded, { control, entry_url });
    },
    async runServer(args) {
      const { runServerProgram } = await import("./cli/server_program.ts");
      return await runServerProgram(args, { entry_url, terminal: processTerminal("svc-server") });
    },
    onInterrupt: onStopSignal,
    exit: endProcess,
  });
}

/** This file as a worker: it imports only what the worker needs, and messages wait for that. */
async function work(name: string): Promise<void> {
  if (name === "probe") {
    const { answerProbe } = await import("./cli/device_probe.ts");
    return await answerProbe();
  }
  await bufferMessages(globalThis, async () => {
    const { runAsWorker } = await import("./runs/session/session.ts");
    if (name !== "engine") return () => runAsWorker(() => {});
    const { serveEngine } = await import("./trainer/engine/engine.ts");
    return () => runAsWorker(serveEngine);
  });
}

if ("WorkerGlobalScope" in globalThis) await work((globalThis as { name?: string }).name ?? "");
else if (import.meta.main && isJobProcess()) await serveJobProcess();
else if (import.meta.main && isServingProcess()) {
  prepareGpuEnvironment();
  endProcess(await runServingProcess(import.meta.url));
} else if (import.meta.main) {
  prepareGpuEnvironment();
  endProcess(await main());
}
