import { deepEqual, equal, ok, rejects, throws } from "node:assert/strict";
import { join } from "node:path";
import { ServiceError } from "../core/errors.ts";
import { checkVerifiable, parseScenario, readScenarios } from "./scenario.ts";
import { MAX_REPORTED_PROBLEMS } from "./problems.ts";

async function withFile(content: string | Uint8Array, use: (path: string) => Promise<void>): Promise<void> {
  const directory = await Deno.makeTempDir();
  try {
    const path = join(directory, "tasks.jsonl");
    await Deno.writeFile(path, typeof content === "string" ? new TextEncoder().encode(content) : content);
    await use(path);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

const line = (id: string, more: object = {}) => JSON.stringify({ id, user: "do it", ...more });

async function failure(content: string | Uint8Array): Promise<ServiceError> {
  let found: unknown;
  await withFile(content, async (path) => {
    found = await readScenarios(path).then(() => null, (error) => error);
  });
  ok(found instanceof ServiceError, "it is refused");
  return found;
}

Deno.test({
  name: "the committed scenario files are read completely",
  sanitizeResources: true,
  async fn() {
    const folder = new URL("../fixtures/models/tiny-agent/", import.meta.url).pathname;
    const heldout = await readScenarios(join(folder, "scenarios.heldout.jsonl"));
    equal(heldout.length, 100);
    equal((await readScenarios(join(folder, "scenarios.train.jsonl"))).length, 400);
    const { metadata: _metadata, ...first } = heldout[1]!;
    deepEqual(first, {
      id: "heldout-copy-0001",
      system: "Solve the task with the tools. When it is done, call submit.",
      user: "Make `text.md` a copy of `copy.txt`.",
      rubric: null,
      env: {
        files: { "copy.txt": "fotines" },
        setup: [],
        verify: {
          command: ["sh", "-c", "test \"$(cat 'text.md' 2>/dev/null)\" = 'fotines'"],
          reward_on_success: 1,
          protect: null,
        },
        summary: null,
        toolset: "files",
      },
      line: 2,
    });
  },
});

Deno.test("a byte order mark, any line end and blank last lines are tolerated", async () => {
  for (const end of ["\n", "\r\n", "\r"]) {
    await withFile(`\ufeff${line("a")}${end}${line("b")}${end}${end}  ${end}`, async (path) => {
      deepEqual((await readScenarios(path)).map(({ id, line }) => [id, line]), [["a", 1], ["b", 2]]);
    });
  }
  await withFile(line("é\u2028"), async (path) => equal((await readScenarios(path))[0]!.id, "é\u2028"));
});

Deno.test("a line end that is split between two reads counts once", async () => {
  const long = line("a", { system: "x".repeat((1 << 16) - line("a", { system: "" }).length - 1) });
  equal(long.length, (1 << 16) - 1);
  await withFile(`${long}\r\n${line("b")}\n`, async (path) => {
    deepEqual((await readScenarios(path)).map(({ line }) => line), [1, 2]);
  });
});

Deno.test("an invalid line is named with its file", async () => {
  for (
    const [broken, reason] of [
      ["{", /not JSON/],
      ["[1]", /not a JSON object/],
      [line("b", { extra: 1 }), /tasks\.jsonl:2: unknown field "extra"$/],
      ['{"id":"b"}', /user: is missing: a string$/],
      [line("b", { metadata: { env: { fils: {} } } }), /metadata\.env: unknown field "fils"$/],
      [line("b", { metadata: { env: { files: { "../x": "" } } } }), /relative path inside the workspace/],
      [line("b", { metadata: { env: { files: { "/x": "" } } } }), /relative path inside the workspace/],
      [
        line("b", { metadata: { env: { verify: { command: [] } } } }),
        /metadata\.env\.verify\.command: must be a list of at least 1 entry, not an empty one$/,
      ],
      [
        line("b", { metadata: { env: { verify: { command: "ls" } } } }),
        /metadata\.env\.verify\.command: must be a list, not "ls"$/,
      ],
      // A task that pays 0 for success can never be passed.
      ...[0, -1].map((reward_on_success) =>
        [
          line("b", { metadata: { env: { verify: { command: ["ls"], reward_on_success } } } }),
          new RegExp(
            `metadata\\.env\\.verify\\.reward_on_success: must be above 0, not ${reward_on_success}$`,
          ),
        ] as const
      ),
      [line("b", { system: 3 }), /system: must be a string, not 3$/],
      [line("", {}), /id: must be a string of at least 1 character, not ""$/],
    ] as const
  ) {
    const error = await failure(`${line("a")}\n${broken}\n`);
    equal(error.code, "data_invalid");
    ok(/tasks\.jsonl:2: /.test(error.message) && reason.test(error.message), error.message);
  }
});

Deno.test("a duplicate id names both lines", async () => {
  const error = await failure(`${line("a")}\n${line("b")}\n${line("a")}\n`);
  ok(/tasks\.jsonl:3: the id "a" is that of line 1$/.test(error.message), error.message);
});

Deno.test("all invalid lines are listed, up to a limit", async () => {
  const error = await failure(`{\n`.repeat(2 * MAX_REPORTED_PROBLEMS));
  const problems = error.details.problems as { line: number }[];
  deepEqual(
    problems.map((problem) => problem.line),
    Array.from({ length: MAX_REPORTED_PROBLEMS }, (_, i) => i + 1),
  );
});

Deno.test("bytes that are not UTF-8, blank lines inside and empty files are refused", async () => {
  const bytes = new TextEncoder().encode(`${line("a")}\n${line("b")}`);
  bytes[bytes.length - 4] = 0xff;
  ok(/tasks\.jsonl:2: the bytes are not UTF-8/.test((await failure(bytes)).message));
  ok(/tasks\.jsonl:2: the line is blank/.test((await failure(`${line("a")}\n\n${line("b")}`)).message));
  ok(/tasks\.jsonl: the file is empty$/.test((await failure("\n")).message));
});

Deno.test("anything but a regular file is refused", async () => {
  await rejects(readScenarios("/nonexistent/x.jsonl"), { code: "path_not_found" });
  await rejects(readScenarios("/tmp"), { code: "path_not_found" });
});

Deno.test("deeply nested JSON and missing paths are refused with their reasons", async () => {
  const deep = `{"id":"a","user":"u","metadata":{"x":${"[".repeat(50_000)}${"]".repeat(50_000)}}}`;
  ok(/tasks\.jsonl:1: not JSON \(nested more than 64 levels deep\)/.test((await failure(deep)).message));
  await withFile("{}", async (path) => {
    const message = /Cannot read .*: a part of the path is a file, not a folder$/;
    await rejects(readScenarios(`${path}/x.jsonl`), { code: "path_not_found", message });
  });
});

Deno.test("held-out scenarios that nothing can verify are refused with their lines", () => {
  const scenarios = ["a", "b", "c"].map((id, i) =>
    parseScenario({ id, user: "u", metadata: { rubric: "r" } }, { path: "x", line: i + 1 })
  );
  equal(scenarios[0]!.rubric, "r");
  checkVerifiable("x.jsonl", scenarios, () => null);
  throws(
    () => checkVerifiable("x.jsonl", scenarios, ({ id }) => id === "b" ? "give it a goal" : null),
    /x\.jsonl:2: nothing can verify scenario "b"; give it a goal, or leave the scenario out/,
  );
});
