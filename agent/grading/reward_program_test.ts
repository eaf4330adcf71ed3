import { deepEqual, equal, match, ok, rejects } from "node:assert/strict";
import { join } from "node:path";
import { AsyncQueue } from "../../core/async_queue.ts";
import { systemClock } from "../../core/clock.ts";
import { ManualClock, WakingClock } from "../../core/clock_fake.ts";
import { withFolder } from "../../tests/folder.ts";
import { diesSoon, isDead } from "../../tests/process_state.ts";
import {
  END_TIMEOUT_MS,
  MAX_ANSWER_BYTES,
  MAX_QUOTED_CHARS,
  MAX_REWARD,
  MAX_STDERR_BYTES,
  RewardProgram,
  type RewardProgramOptions,
  type RewardRequest,
} from "./reward_program.ts";

const strict = { sanitizeOps: true, sanitizeResources: true };
const never = new AbortController().signal;

const requestOf = (id: string, text = ""): RewardRequest => ({
  id,
  scenario: { id: "s", user: "u", metadata: {} },
  messages: [{ role: "user", content: text }],
});

interface Tested {
  program: RewardProgram;
  /** The rewards of requests with these ids. */
  ask(...ids: string[]): Promise<number[]>;
  /** What it said until now. */
  said(): string[];
  folder: string;
  clock: ManualClock;
}

/** A shell script as a reward program. */
async function withProgram(
  script: string,
  use: (tested: Tested) => Promise<void>,
  more: Partial<RewardProgramOptions> = {},
): Promise<void> {
  await withFolder(async (folder) => {
    const workspaces = join(folder, "workspaces"), heard: string[] = [], clock = new ManualClock();
    await Deno.mkdir(workspaces);
    await Deno.writeTextFile(join(folder, "grade.sh"), script);
    const program = new RewardProgram({
      ...{ command: ["sh", "./grade.sh"], timeout_secs: 5, cwd: folder, workspaces, clock },
      messages: { push: (...messages) => void heard.push(...messages) },
      ...more,
    });
    try {
      await use({
        ...{ program, folder, clock, said: () => heard },
        ask: async (...ids) =>
          (await program.ask(ids.map((id) => requestOf(id)), never)).map(({ reward }) => reward),
      });
    } finally {
      await program.close();
      await program.close();
    }
    deepEqual(await Array.fromAsync(Deno.readDir(workspaces)), [], "its home is removed");
    equal(clock.sleeping, 0);
  });
}

/** Shell: the id of a request line. */
const ID = `id() { printf %s "$1" | sed 's/^{"id":"\\([^"]*\\)".*/\\1/'; }\n`;

/** Answers each line with its number in this process. */
const COUNT =
  `${ID}n=0\nwhile read -r line; do n=$((n+1)); echo "{\\"id\\":\\"$(id "$line")\\",\\"reward\\":$n}"; done\n`;

/** A program that does this with the id of each request. */
const forEach = (step: string) => `${ID}while read -r line; do id=$(id "$line"); ${step}; done\n`;

const answerOf = (id: string, reward: string) => `echo "{\\"id\\":\\"${id}\\",\\"reward\\":${reward}}"`;

Deno.test("one process grades the entire run, without the caller's environment", strict, async () => {
  Deno.env.set("SVC_CANARY", "seen");
  const line = forEach(
    'test -z "$SVC_CANARY" && test "$PWD" != "$HOME" && test -z "$(ls -A "$HOME")" && test -f grade.sh && ' +
      answerOf("$id", "$$"),
  );
  try {
    await withProgram(line, async ({ ask, program }) => {
      await program.start(never);
      const [first, second] = await ask("1/0/0", "1/0/1");
      equal(first, second);
      deepEqual(await ask("2/0/0"), [first]);
      deepEqual(await ask(), []);
    });
  } finally {
    Deno.env.delete("SVC_CANARY");
  }
});

Deno.test(
  "a line has the attempt, and an explanation may come back; other fields are left out",
  strict,
  async () => {
    const script = 'read -r line\nprintf %s "$line" > seen.json\n' +
      `echo '{"id":"a","reward":-0.5,"explanation":"schön","more":[1]}'\nread -r wait\n`;
    await withProgram(script, async ({ program, folder }) => {
      const request = { ...requestOf("a", "line\nend \u2028 🐢"), state: { files: ["x"] } };
      deepEqual(await program.ask([request], never), [{ id: "a", reward: -0.5, explanation: "schön" }]);
      deepEqual(JSON.parse(await Deno.readTextFile(join(folder, "seen.json"))), request);
    });
  },
);

Deno.test("answers are paired by id, and groups are graded one after the other", strict, async () => {
  // Reads two lines before it answers the second and then the first: the order of groups must be that of the calls.
  const two = `${ID}while read -r a && read -r b; do ` +
    `${answerOf('$(id "$b")', "2")}; ${answerOf('$(id "$a")', "1")}; done\n`;
  await withProgram(two, async ({ ask }) => {
    deepEqual(await Promise.all([ask("a", "b"), ask("c", "d")]), [[1, 2], [1, 2]]);
  });
  await withProgram(COUNT, async ({ ask }) => {
    deepEqual(await Promise.all([ask("a", "b"), ask("c")]), [[1, 2], [3]]);
  });
});

const DEEP = "[".repeat(5000) + "]".repeat(5000);

/** What a program writes in answer to "a", and the failure. */
const BREAKS: [string, string, RegExp][] = [
  ["text", "echo graded", /^the program wrote "graded": it is not JSON; only answers belong on/],
  ["a long line", `printf '%0200d\\n' 0`, RegExp(`^the program wrote "0{${MAX_QUOTED_CHARS}}…": `)],
  ["nothing but a line end", "echo", /^the program wrote "": it is not JSON/],
  ["a number", "echo 1", /^the program wrote "1": an answer is an object$/],
  ["deep JSON", `echo '${DEEP}'`, /an answer is an object$/],
  ["no id", `echo '{"reward":1}'`, /^the program wrote "{\\"reward\\":1}": its id is not a string$/],
  ["no reward", `echo '{"id":"a"}'`, /its reward is not a number from -1000000 to 1000000$/],
  ["a reward as text", answerOf("a", `\\"1\\"`), /its reward is not a number/],
  ["NaN", answerOf("a", "NaN"), /: it is not JSON/],
  ["an infinite reward", answerOf("a", "1e999"), /its reward is not a number/],
  ["a reward above the limit", answerOf("a", `${MAX_REWARD + 1}`), /its reward is not a number/],
  ["an explanation of another type", `echo '{"id":"a","reward":1,"explanation":3}'`, /explanation is not a/],
  ["an unknown id", answerOf("b", "1"), /^the program answered "b", which was not asked or had its answer$/],
  ["a prototype's name as id", answerOf("__proto__", "1"), /^the program answered "__proto__", which/],
  ["an endless line", "exec cat /dev/zero", /^the program's answer has more than 1048576 bytes$/],
  ["its end", "exit 3", /^the program exited with status 3 without an answer$/],
  ["a line without an end", `printf '{"id":"a"'; exit 0`, /^the program exited with status 0 without/],
  ["its death", "kill -9 $$", /^the program was killed by SIGKILL without an answer$/],
];

for (const [what, step, message] of BREAKS) {
  Deno.test(
    `a program that writes ${what} fails, and grades the next group as a new process`,
    strict,
    async () => {
      const script = forEach(`if test "$id" = a; then ${step}; else ${answerOf("$id", "7")}; fi`);
      await withProgram(script, async ({ ask }) => {
        await rejects(
          ask("a"),
          (error: Error) => message.test(error.message) || (match(error.message, message), false),
        );
        deepEqual(await ask("c"), [7]);
      });
    },
  );
}

Deno.test("rewards up to the limit are taken", strict, async () => {
  await withProgram(forEach(answerOf("$id", `-${MAX_REWARD}`)), async ({ ask }) => {
    deepEqual(await ask("a"), [-MAX_REWARD]);
  });
});

Deno.test("an answer of the largest size is taken", strict, async () => {
  const head = `{"id":"a","reward":1,"explanation":"`, size = MAX_ANSWER_BYTES - head.length - 2;
  const script =
    `read -r line\nprintf %s '${head}'\nhead -c ${size} /dev/zero | tr '\\0' x\necho '"}'\nread -r wait\n`;
  await withProgram(script, async ({ program }) => {
    const [answer] = await program.ask([requestOf("a")], never);
    equal(answer!.explanation!.length, size);
  });
});

Deno.test("a second answer is found with the next group, which it fails", strict, async () => {
  const script = forEach(`${answerOf("$id", "1")}; ${answerOf("$id", "2")}`);
  await withProgram(script, async ({ ask }) => {
    deepEqual(await ask("a"), [1]);
    await rejects(ask("b"), /the program answered "a", which was not asked or had its answer/);
    deepEqual(await ask("c"), [1]);
  });
});

/** Advances the clock as soon as something waits for it. */
async function expire(clock: ManualClock, delta_ms: number): Promise<void> {
  while (clock.sleeping === 0) await new Promise((resolve) => setTimeout(resolve, 1));
  await clock.advance(delta_ms);
}

async function textOnceThere(path: string): Promise<string> {
  while (true) {
    const text = await Deno.readTextFile(path).catch(() => "");
    if (text.endsWith("\n")) return text.trim();
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

const LINUX = Deno.build.os === "linux";

Deno.test({
  name: `a program past its limit is killed with all it started${LINUX ? "" : " (skipped: needs Linux)"}`,
  ignore: !LINUX,
  ...strict,
  async fn() {
    // A child in a session of its own is found by its HOME; this program ignores what can be ignored.
    const script = forEach(
      `test "$id" = a || { ${answerOf("$id", "7")}; continue; }; trap '' TERM INT; ` +
        "setsid sleep 1000 & echo $! > pid; sleep 1000 & sleep 1000",
    );
    await withProgram(script, async ({ ask, folder, clock }) => {
      deepEqual(await ask("b"), [7]);
      const asked = ask("a");
      asked.catch(() => {});
      const pid = await textOnceThere(join(folder, "pid"));
      equal(await isDead(pid), false);
      await expire(clock, 4999);
      await expire(clock, 1);
      await rejects(asked, /^Error: the program gave no answer within 5 s \(agent\.reward\.timeout_secs\)$/);
      equal(await diesSoon(pid), true);
      deepEqual(await ask("c"), [7]);
    });
  },
});

class CountingClock extends ManualClock {
  /** The number of sleeps that were begun. */
  sleeps = 0;

  override sleep(delay_ms: number, signal?: AbortSignal): Promise<void> {
    this.sleeps++;
    return super.sleep(delay_ms, signal);
  }
}

Deno.test("the limit is that of each answer", strict, async () => {
  // The program waits for a file before each answer.
  const script = forEach(`while ! test -f "go_$id"; do sleep 0.01; done; ${answerOf("$id", "1")}`);
  const clock = new CountingClock();
  await withProgram(script, async ({ ask, folder }) => {
    const asked = ask("a", "b");
    for (const [i, id] of ["a", "b"].entries()) {
      while (clock.sleeps <= i) await new Promise((resolve) => setTimeout(resolve, 1));
      await clock.advance(4999);
      await Deno.writeTextFile(join(folder, `go_${id}`), "");
    }
    deepEqual(await asked, [1, 1]);
  }, { clock });
});

Deno.test("a program that closes its output and lives on has no answer", strict, async () => {
  await withProgram("read -r line\nexec >&-\nexec sleep 1000\n", async ({ ask }) => {
    await rejects(ask("a"), /^Error: the program closed its standard output without an answer$/);
  }, { clock: systemClock });
  // A program that closes its output may be about to end: its end is waited for a while.
  const clock = new WakingClock();
  await withProgram("read -r line\nexec >&-\nexec sleep 1000\n", async ({ ask }) => {
    let is_over = false;
    const asked = rejects(ask("a"), /closed its standard output/).finally(() => is_over = true);
    await clock.sleeper(END_TIMEOUT_MS);
    await clock.advance(END_TIMEOUT_MS - 1);
    equal(is_over, false);
    await clock.advance(1);
    await asked;
  }, { clock });
});

Deno.test("an abort ends the program, and so does closing it", strict, async () => {
  const script = "echo started > started\nwhile read -r line; do sleep 1000; done\n";
  await withProgram(script, async ({ program, folder }) => {
    const stop = new AbortController();
    const aborted = program.ask([requestOf("a")], stop.signal);
    aborted.catch(() => {});
    await textOnceThere(join(folder, "started"));
    stop.abort(new Error("enough"));
    await rejects(aborted, /enough/);
    const [asked, waiting] = [program.ask([requestOf("b")], never), program.ask([requestOf("c")], never)];
    for (const ask of [asked, waiting]) ask.catch(() => {});
    await program.close();
    await rejects(asked);
    await rejects(waiting);
    await rejects(program.start(never));
  });
});

Deno.test("a program that ended between two groups is started again", strict, async () => {
  const script = `echo $$ >> started\n${ID}read -r line\n${answerOf('$(id "$line")', "$$")}\n`;
  await withProgram(script, async ({ ask, folder, program }) => {
    const started = async () => (await Deno.readTextFile(join(folder, "started"))).trim().split("\n");
    const [first] = await ask("a");
    // Its end is noticed some time after its last output.
    while ((await started()).length === 1) {
      await program.start(never);
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    const [second] = await ask("b");
    deepEqual(await started(), [String(first), String(second)]);
  });
});

Deno.test("what it writes to standard error is told, its end only when it is much", strict, async () => {
  const script = forEach(
    `test "$id" = a && echo loaded >&2; test "$id" = b && { head -c 100000 /dev/zero | tr '\\0' x >&2; ` +
      `echo last >&2; exit 1; }; ${answerOf("$id", "1")}`,
  );
  await withProgram(script, async ({ ask, said, program }) => {
    await ask("a");
    await rejects(ask("b"), /exited with status 1/);
    const text = said().join("\n");
    match(text, /^the reward program wrote to standard error: loaded/);
    ok(text.endsWith("xlast"), text.slice(-20));
    const longest = Math.max(...said().map((message) => message.length));
    ok(longest <= MAX_STDERR_BYTES + 60, String(longest));
    await program.close();
  });
});

Deno.test("a program that cannot be started says so without its name", strict, async () => {
  const heard = new AsyncQueue<string>();
  for (
    const [options, reason] of [
      [{ command: ["no-such-program"] }, "no such program"],
      [{ command: ["./absent"] }, "no such program"],
      [{ command: ["sh"], cwd: "/no/such/folder" }, "there is no folder /no/such/folder"],
    ] as const
  ) {
    const program = new RewardProgram({
      ...{ timeout_secs: 5, cwd: "/", clock: new ManualClock(), messages: heard, ...options },
    });
    const refused = { code: "environment_failed", message: `Cannot run agent.reward.command: ${reason}` };
    await rejects(program.start(never), refused);
    await rejects(program.ask([requestOf("a")], never), refused);
    await program.close();
  }
});
