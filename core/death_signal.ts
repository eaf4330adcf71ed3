/** Child processes that die with this one. */

let prefix: readonly string[] | null = null;

/**
 * `setpriv --pdeathsig KILL`, to put in front of a command: the kernel kills the program when the thread that started it
 * ends, even by SIGKILL. The program's own children are not killed. Empty where `setpriv` is not installed.
 */
export async function deathSignalPrefix(): Promise<readonly string[]> {
  if (prefix) return prefix;
  const command = ["setpriv", "--pdeathsig", "KILL", "--"];
  try {
    const probe = new Deno.Command("setpriv", {
      args: [...command.slice(1), "true"],
      stdin: "null",
      stdout: "null",
      stderr: "null",
    });
    prefix = (await probe.output()).success ? command : [];
  } catch {
    prefix = [];
  }
  return prefix;
}
