import assert from "node:assert/strict";
import type { ErrorRecord } from "../../core/errors.ts";
import type { CommandEvent } from "../record/event.ts";
import type { RunState } from "../record/run.ts";
import {
  Controller,
  type ControllerOptions,
  type ControlMessage,
  MAX_COMMAND_BYTES,
  pipeLines,
  streamPort,
} from "./control.ts";

async function* nothing(): AsyncGenerator<string> {}

function controller(more: Partial<ControllerOptions> & { in_state?: RunState } = {}) {
  const sent: ControlMessage[] = [], events: CommandEvent[] = [];
  const made = new Controller({
    port: { lines: nothing(), send: (message) => sent.push(message) },
    state: () => more.in_state ?? "running",
    facts: () => ({ has_checkpoint: true, checkpoint_configured: true, has_heldout: true }),
    record: (event) => Promise.resolve(void events.push(event)),
    ask: () => Promise.resolve("answer"),
    cancelNow: () => assert.fail("nothing was to be cancelled"),
    ...more,
  });
  return { controller: made, sent, events };
}

Deno.test("commands wait for the boundary in order and are recorded", async () => {
  const { controller: c, sent, events } = controller();
  await c.receive('{"id": 1, "command": "set_lr", "lr": 0.5}');
  await c.receive('{"id": "x", "command": "pause"}');
  assert.deepEqual(sent, [
    { id: 1, accepted: true, takes_effect: "boundary" },
    { id: "x", accepted: true, takes_effect: "boundary" },
  ]);
  assert.deepEqual(events, [
    { kind: "command", command: "set_lr", arguments: { lr: 0.5 }, takes_effect: "boundary" },
    { kind: "command", command: "pause", arguments: {}, takes_effect: "boundary" },
  ]);
  assert.deepEqual(c.takeBoundary().map(({ command }) => command), ["set_lr", "pause"]);
  assert.deepEqual(c.takeBoundary(), []);
});

Deno.test("a command that the state does not accept is refused and not recorded", () => {
  const { controller: c, sent, events } = controller({ in_state: "pausing" });
  c.receive('{"id": 1, "command": "pause"}');
  assert.deepEqual(sent, [{
    id: 1,
    accepted: false,
    error: { code: "conflict", message: "Cannot pause: the run is pausing", details: {} },
  }]);
  assert.deepEqual(events, []);
});

for (
  const [line, expected] of [
    ["{", /no JSON/],
    ["7", /Cannot read the command/],
    ['{"id": 1}', /command/],
    ['{"id": 1, "command": "explode"}', /command: must be "pause" or .*, not "explode"$/],
    ['{"id": 1, "command": "set_lr", "lr": 0}', /lr/],
    ['{"id": 1, "command": "set_lr", "lr": 1.5}', /lr/],
    ['{"id": 1, "command": "evaluate", "timeout_ms": 2147483648}', /timeout_ms/],
    ['{"id": 1, "command": "pause", "now": true}', /now/],
    ['{"id": 1, "command": "generate", "messages": [], "max_new_tokens": 1}', /messages/],
  ] as const
) {
  Deno.test(`a wrong line is refused: ${line}`, () => {
    const { controller: c, sent } = controller();
    c.receive(line);
    const [answer] = sent as { accepted: boolean; error: { code: string; message: string } }[];
    assert.equal(answer!.accepted, false);
    assert.equal(answer!.error.code, "config_invalid");
    assert.match(answer!.error.message, expected);
  });
}

Deno.test("cancel now calls at once and still ends at the boundary", async () => {
  let cancelled = 0;
  const { controller: c, sent } = controller({ cancelNow: () => cancelled++ });
  const acknowledged = c.receive('{"id": 1, "command": "cancel", "at": "now", "checkpoint": true}');
  assert.equal(cancelled, 1);
  await acknowledged;
  assert.deepEqual(sent, [{ id: 1, accepted: true, takes_effect: "now" }]);
  assert.deepEqual(c.takeBoundary(), [{ id: 1, command: "cancel", at: "now", checkpoint: true }]);
});

Deno.test("a request is answered twice", async () => {
  const { controller: c, sent } = controller({ ask: ({ command }) => Promise.resolve({ command }) });
  await c.receive('{"id": 1, "command": "evaluate"}');
  await c.close();
  assert.deepEqual(sent, [
    { id: 1, accepted: true, takes_effect: "now" },
    { id: 1, result: { command: "evaluate" } },
  ]);
});

for (const [command, takes_effect] of [["checkpoint", "boundary"], ["evaluate", "now"]] as const) {
  Deno.test(`${command} is acknowledged, and starts to be answered, when its event is on disk`, async () => {
    const written = Promise.withResolvers<void>(), asked: string[] = [];
    const { controller: c, sent } = controller({
      record: () => written.promise,
      ask: ({ command }) => (asked.push(command), Promise.resolve("answer")),
    });
    const acknowledged = c.receive(JSON.stringify({ id: 1, command }));
    await c.receive('{"id": 2, "command": "drop", "request": "unknown"}');
    const dropped = { id: 2, accepted: true, takes_effect: "now" };
    assert.deepEqual([sent, asked], [[dropped], []]);
    written.resolve();
    await acknowledged;
    assert.deepEqual(sent.slice(0, 2), [dropped, { id: 1, accepted: true, takes_effect }]);
    await c.close();
  });
}

Deno.test("a command whose event cannot be written is refused", async () => {
  const { controller: c, sent } = controller({ record: () => Promise.reject(new Error("the disk is full")) });
  await c.receive('{"id": 1, "command": "evaluate"}');
  await c.close();
  const [refused, ...more] = sent as Extract<ControlMessage, { accepted: false }>[];
  assert.deepEqual([refused!.id, refused!.accepted, more], [1, false, []]);
});

Deno.test("an open request ends with the process", async () => {
  const { controller: c, sent } = controller({
    ask: (_, signal) =>
      new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
  });
  c.receive(
    '{"id": 1, "command": "generate", "messages": [{"role": "user", "content": "x"}], "max_new_tokens": 4}',
  );
  await c.close();
  assert.equal((sent[1] as Extract<ControlMessage, { error: ErrorRecord }>).error.code, "conflict");
});

Deno.test("a request ends with its time limit", { sanitizeOps: true }, async () => {
  const { controller: c, sent } = controller({
    ask: (_, signal) =>
      new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
  });
  c.receive('{"id": 1, "command": "evaluate", "timeout_ms": 1}');
  while (sent.length < 2) await new Promise((resolve) => setTimeout(resolve));
  assert.equal((sent[1] as Extract<ControlMessage, { error: ErrorRecord }>).error.code, "cancelled");
});

Deno.test("a request that is dropped ends, and others go on", async () => {
  const answers = new Map<unknown, (answer: string) => void>();
  const { controller: c, sent, events } = controller({
    ask: ({ id }, signal) =>
      new Promise((resolve, reject) => {
        answers.set(id, resolve);
        signal.addEventListener("abort", () => reject(signal.reason));
      }),
  });
  await c.receive('{"id": 1, "command": "evaluate"}');
  await c.receive('{"id": 2, "command": "evaluate"}');
  c.receive('{"id": 3, "command": "drop", "request": 1}');
  c.receive('{"id": 4, "command": "drop", "request": "unknown"}');
  answers.get(2)!("two");
  await c.close();
  const of = (id: number) => sent.filter((message) => "id" in message && message.id === id);
  assert.equal((of(1)[1] as Extract<ControlMessage, { error: ErrorRecord }>).error.code, "cancelled");
  assert.deepEqual(of(2)[1], { id: 2, result: "two" });
  assert.deepEqual([of(3), of(4)], [
    [{ id: 3, accepted: true, takes_effect: "now" }],
    [{ id: 4, accepted: true, takes_effect: "now" }],
  ]);
  assert.equal(events.length, 2);
});

Deno.test("the log has no texts of requests", () => {
  const { controller: c, events } = controller();
  const messages = [{ role: "user", content: "secret" }], tools = [{ name: "t" }];
  c.receive(JSON.stringify({ id: 1, command: "generate", messages, tools, max_new_tokens: 4 }));
  assert.deepEqual(events, [{
    ...{ kind: "command", command: "generate", takes_effect: "now" },
    arguments: {
      ...{ messages: 1, tools: 1, max_new_tokens: 4, temperature: 1, top_p: 1, seed: 0, adapter: true },
    },
  }]);
});

Deno.test("lines arrive complete, wherever the bytes are cut", async () => {
  const bytes = new TextEncoder().encode('{"a":"é"}\n\n{"b":1}\nrest');
  for (let size = 1; size < bytes.length; size++) {
    const stream = ReadableStream.from((function* () {
      for (let at = 0; at < bytes.length; at += size) yield bytes.slice(at, at + size);
    })());
    assert.deepEqual(await Array.fromAsync(pipeLines(stream)), ['{"a":"é"}', "", '{"b":1}', "rest"]);
  }
});

Deno.test("an endless line is refused", async () => {
  const piece = new Uint8Array(1 << 20).fill(120);
  const stream = ReadableStream.from((function* () {
    for (let i = 0; i <= MAX_COMMAND_BYTES / piece.length; i++) yield piece;
  })());
  await assert.rejects(Array.fromAsync(pipeLines(stream)), /more than 4194304 bytes/);
});

Deno.test("the port writes one line for each message", async () => {
  const written: Uint8Array[] = [];
  const port = streamPort(ReadableStream.from([new TextEncoder().encode("a\n")]), {
    writeSync: (bytes) => written.push(bytes.slice(0, 3)) && Math.min(3, bytes.length),
  });
  port.send({ durable_seq: 12 });
  assert.equal(
    new TextDecoder().decode(await new Blob(written as BlobPart[]).bytes()),
    '{"durable_seq":12}\n',
  );
  assert.deepEqual(await Array.fromAsync(port.lines), ["a"]);
});

Deno.test("an output without a reader is not a failure", () => {
  let tries = 0;
  const port = streamPort(ReadableStream.from([]), {
    writeSync() {
      tries++;
      throw new Deno.errors.BrokenPipe("Broken pipe");
    },
  });
  port.send({ durable_seq: 1 });
  port.send({ durable_seq: 2 });
  assert.equal(tries, 1);
});

Deno.test("an ended controller refuses every command", () => {
  const { controller: c, sent, events } = controller();
  c.end();
  c.receive('{"id": 1, "command": "pause"}');
  assert.match((sent[0] as { error: ErrorRecord }).error.message, /the run is ending/);
  assert.deepEqual([events, c.has_waiting], [[], false]);
});
