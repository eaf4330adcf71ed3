/** The program's entry as the process that serves a model. */

import { EXIT } from "./exit_codes.ts";
import { SERVING_COMMAND } from "../runs/serving/serving_command.ts";
import { svcArguments } from "./svc_arguments.ts";

/** Whether this process was started to serve a model. */
export function isServingProcess(): boolean {
  const args = svcArguments();
  return args.length === 1 && args[0] === SERVING_COMMAND;
}

/** Answers chats until the server closes the pipe. @returns The exit status. */
export async function runServingProcess(entry_url: string): Promise<number> {
  const [{ engineWorker, serveModel }, { linePort, writeOutput }] = await Promise.all([
    import("../runs/serving/serve_model.ts"),
    import("../runs/serving/line_port.ts"),
  ]);
  const port = linePort(Deno.stdin.readable, writeOutput);
  return await serveModel({ port, startEngine: engineWorker(entry_url) }) ? EXIT.done : EXIT.failed;
}
