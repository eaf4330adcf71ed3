import assert from "node:assert/strict";
import { type BegunCall, DurableSteps, TraceReader } from "./durable_steps.ts";

/** What strace 6.1 writes. */
const TRACE = `7 1.5 fsync(12</d/runs/.svc-partial-run.json>) = 0
7 2.25 rename("/d/runs/.svc-partial-run.json", "/d/runs/run.json" <unfinished ...>
8 3.0 unlinkat(9</d/gone>, "a.md", 0) = 0
7 4.0 <... rename resumed>)            = 0
8 5.0 unlinkat(AT_FDCWD</home>, "/d/gone", AT_REMOVEDIR) = 0
8 6.0 mkdir("/d/runs", 0777)           = -1 EEXIST (File exists)
8 7.0 fsync(9</d/runs>)                = ?
8 8.0 +++ killed by SIGKILL +++
`;
const BEGUN: BegunCall[] = [
  { thread: 7, time_ms: 1500, call: "fsync", path: "/d/runs/.svc-partial-run.json" },
  { thread: 7, time_ms: 2250, call: "rename", path: "/d/runs/run.json" },
  { thread: 8, time_ms: 3000, call: "unlinkat", path: "/d/gone/a.md" },
  { thread: 8, time_ms: 5000, call: "unlinkat", path: "/d/gone" },
  { thread: 8, time_ms: 6000, call: "mkdir", path: "/d/runs" },
  { thread: 8, time_ms: 7000, call: "fsync", path: "/d/runs" },
];

Deno.test("each call in a trace is told once, with its path", () => {
  assert.deepEqual(new TraceReader().take(TRACE), BEGUN);
  const reader = new TraceReader();
  assert.deepEqual([...TRACE].flatMap((letter) => reader.take(letter)), BEGUN);
});

Deno.test("a call is told before it returns", () => {
  const reader = new TraceReader();
  assert.deepEqual(reader.take('7 1.0 rename("/d/a", '), []);
  const begun = [{ thread: 7, time_ms: 1000, call: "rename", path: "/d/b" }];
  assert.deepEqual(reader.take('"/d/b"'), begun);
  assert.deepEqual(reader.take(") = 0\n"), []);
});

Deno.test("calls that differ in ids, random names or updates are one step, and others are not", () => {
  const steps = new DurableSteps("/d", 2),
    found = (call: string, path: string) => steps.found("server", { call, path });
  assert.equal(
    found("mkdir", "/d/runs/run_01M83Q2D6KD9768BYZ7JMYFMQ0/checkpoints/update_000001"),
    found("mkdir", "/d/runs/run_01M83Q2E8GNFKFY2XFFJBKVNDK/checkpoints/update_000002"),
  );
  assert.equal(
    found("unlink", "/d/datasets/.upload-feae7211-91a5-4209-98aa-8569c1780e34/card.json"),
    "server: unlink datasets/.upload-*/*",
  );
  assert.equal(
    found(
      "unlink",
      "/d/runs/run_01M83Q2D6KD9768BYZ7JMYFMQ0/workspaces/svc-workspace-0123456789abcdef/a/b.md",
    ),
    "server: unlink runs/run_*/workspaces/svc-workspace-*/*",
  );
  assert.equal(
    found("rename", "/d/runs/.new_run_01M83Q2D6KD9768BYZ7JMYFMQ0/a"),
    "server: rename runs/.new_run_*/a",
  );
  assert.equal(found("rename", "/elsewhere/run.json"), null);
  assert.notEqual(found("rename", "/d/a"), steps.found("process", { call: "rename", path: "/d/a" }));
});

Deno.test("flushing a folder is a step for each name that the folder gets", () => {
  const steps = new DurableSteps("/d", 2),
    found = (call: string, path: string) => steps.found("server", { call, path });
  assert.equal(found("fsync", "/d/runs"), "server: fsync runs");
  found("rename", "/d/runs/run.json");
  assert.equal(found("fsync", "/d/runs"), "server: fsync runs after run.json");
  found("unlink", "/d/runs/other");
  assert.equal(found("fsync", "/d/runs"), "server: fsync runs after run.json");
  steps.startAgain();
  assert.equal(found("fsync", "/d/runs"), "server: fsync runs");
});

Deno.test("a step is done after enough kills", () => {
  const steps = new DurableSteps("/d", 2), step = steps.found("server", { call: "mkdir", path: "/d/runs" })!;
  assert.deepEqual([...steps.kills], [["server: mkdir runs", 0]]);
  steps.killedAt(step);
  assert.ok(!steps.isDone(step));
  steps.killedAt(step);
  assert.ok(steps.isDone(step));
  steps.found("server", { call: "mkdir", path: "/d/runs" });
  assert.deepEqual([...steps.kills], [["server: mkdir runs", 2]]);
});
