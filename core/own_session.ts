/** Child processes that lead a session, and so a process group, of their own. */

/** What such a process is started with. */
export interface OwnSession {
  /** To put in front of its command. */
  prefix: readonly string[];
  /** The option of `Deno.Command`. */
  detached: boolean;
}

let own_session: OwnSession | null = null;

/**
 * How to start one: by the program `setsid`, or by Deno's `detached` where it is not installed. `detached` makes Deno fork,
 * which copies the page tables of all that this process has mapped: with 2 GB, 50 ms of its own time and as much of the
 * child's. A program in front, which needs no fork, costs 1 ms whatever is mapped.
 *
 * The process has no group of its own until `setsid` has run: to kill it, use a function that knows, such as
 * `killProgram` of `agent/environment/program.ts`.
 */
export async function ownSession(): Promise<OwnSession> {
  if (own_session) return own_session;
  const probe = new Deno.Command("setsid", { args: ["true"], stdin: "null", stdout: "null", stderr: "null" });
  const works = await probe.output().then(({ success }) => success, () => false);
  return own_session = works ? { prefix: ["setsid"], detached: false } : { prefix: [], detached: true };
}
