/** A container as the sandbox of an attempt: programs and files act inside it, never through paths of this machine. */

import { type Clock, systemClock } from "../../../core/clock.ts";
import { ServiceError } from "../../../core/errors.ts";
import { type CommandResult, OWN_HOME_ENV, type Sandbox, type SandboxCommand } from "../../tools/sandbox.ts";
import { WorkspaceRefusal } from "../../tools/workspace_files.ts";
import { MAX_RESULT_BYTES } from "../workspace.ts";
import { type ContainerReply, fileRefusal, type KeptOutput, type RunningContainer } from "./container.ts";
import { quoted } from "./helper_script.ts";

/** Bytes of stdout and of stderr to keep; later output is read and discarded in the container. */
const MAX_OUTPUT_BYTES = 1 << 20;

/** The start of a line whose program has a HOME of its own. */
const OWN_HOME = [
  "export HOME=/tmp/.svc_home;",
  ...Object.entries(OWN_HOME_ENV).map(([name, value]) => `export ${name}=${value};`),
  '{ rm -rf "$HOME" || { chmod -R u+rwx "$HOME" && rm -rf "$HOME"; }; mkdir "$HOME"; } 2>/dev/null;',
].join(" ");

export interface ContainerSandboxOptions {
  limits: { exec_timeout_secs: number };
  clock: Clock;
}

export class ContainerSandbox implements Sandbox {
  constructor(readonly container: RunningContainer, readonly options: ContainerSandboxOptions) {}

  async run(
    { argv, stdin, max_output_bytes, tail_bytes = 0, own_home }: SandboxCommand,
    signal: AbortSignal,
  ) {
    const [name] = argv;
    if (argv.some((argument) => argument.includes("\0"))) {
      throw new ServiceError("environment_failed", `Cannot run ${name}: an argument has a NUL`);
    }
    const reply = await this.container.call({
      line: [...own_home ? [OWN_HOME] : [], "x", ...argv.map(quoted)].join(" "),
      ...(stdin && { input: [new TextEncoder().encode(stdin)] }),
      max_output_bytes: max_output_bytes ?? MAX_OUTPUT_BYTES,
      tail_bytes,
      ...this.#limit(signal),
    });
    if (reply.is_missing) {
      const message = `Cannot run ${name}: no such program`;
      throw new ServiceError("environment_failed", message, { no_program: true });
    }
    return commandResult(reply, tail_bytes > 0);
  }

  async read(path: string): Promise<string> {
    const { bytes, capped } = await this.#files("f_read", path);
    if (capped) throw new WorkspaceRefusal("too_large");
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
  }

  async write(path: string, content: string): Promise<void> {
    if (!content.isWellFormed()) {
      // A path outside is the graver mistake, as in a folder of this machine.
      await this.#files("resolve", path);
      throw new WorkspaceRefusal("unusable");
    }
    await this.#files("f_write", path, new TextEncoder().encode(content));
  }

  async list(path: string): Promise<{ name: string; directory: boolean }[]> {
    const { bytes, capped } = await this.#files("f_list", path);
    if (capped) throw new WorkspaceRefusal("too_large");
    return new TextDecoder().decode(bytes).split("\0").filter((name) => name !== "").map((name) => {
      const directory = name.endsWith("/");
      return { name: directory ? name.slice(0, -1) : name, directory };
    });
  }

  async #files(name: string, path: string, input?: Uint8Array<ArrayBuffer>): Promise<KeptOutput> {
    if (path.includes("\0")) throw new WorkspaceRefusal("outside");
    const { signal } = new AbortController();
    const call = {
      max_output_bytes: MAX_RESULT_BYTES,
      ...(input && { input: [input] }),
      ...this.#limit(signal),
      // Work of the container itself, as the engine's: it is no command of the policy.
      clock: systemClock,
    };
    const reply = await this.container.files(name, [path], call).catch((error) => {
      // An attempt can make files and folders of any length.
      const is_slow = error instanceof ServiceError && error.details.too_slow === true;
      throw is_slow && this.container.is_usable ? new WorkspaceRefusal("too_slow") : error;
    });
    if (reply.code === 0) return reply.stdout;
    throw new WorkspaceRefusal(fileRefusal(reply.code) ?? "unusable");
  }

  #limit(signal: AbortSignal) {
    const { clock, limits } = this.options;
    return { clock, timeout_ms: limits.exec_timeout_secs * 1000, signal };
  }
}

function commandResult(
  { ended, code, stdout, stderr, out_of_memory }: ContainerReply,
  has_tails: boolean,
): CommandResult {
  const text = ({ bytes }: KeptOutput) => new TextDecoder().decode(bytes);
  // The first character may have lost its first bytes.
  const end = ({ tail }: KeptOutput) => new TextDecoder().decode(tail).replace(/^\ufffd{1,3}/, "");
  const capped = stdout.capped || stderr.capped;
  return {
    code: ended === "exited" ? code : null,
    ended,
    stdout: text(stdout),
    stderr: text(stderr),
    capped,
    ...capped && has_tails && { tails: { stdout: end(stdout), stderr: end(stderr) } },
    ...(out_of_memory && { out_of_memory: true as const }),
  };
}
