import assert from "node:assert/strict";
import { apiWith } from "./api_testing.ts";
import { MOST_SINGLE, RunList } from "./run_list.ts";

/** A server of one page of runs, whose stream has some events, and after them no more. */
function serverOf(
  { newest, events = [] }: { newest: string | null; events?: { kind: string; run: string }[] },
) {
  const asked: string[] = [];
  let streams = 0;
  const { api } = apiWith((request) => {
    const { pathname } = new URL(request.url), after = request.headers.get("last-event-id");
    asked.push(after === null ? pathname : `${pathname} after ${after}`);
    if (pathname === "/v1/runs") {
      const headers = newest === null ? {} : { "last-event-id": newest };
      return Response.json({ runs: [{ id: "old", state: "running" }], next_cursor: null }, { headers });
    }
    if (pathname !== "/v1/events") {
      return Response.json({ id: pathname.split("/").at(-1), state: "completed" });
    }
    if (streams++ > 0) return new Response(null, { status: 204 });
    const texts = events.map((event, i) =>
      `id: ${100 + i}\nevent: ${event.kind}\ndata: ${JSON.stringify(event)}\n\n`
    );
    return new Response(texts.join(""));
  });
  return { list: new RunList(api), asked };
}

/** Follows a server until it has no more events, and draws the frame that was asked for. */
async function followed(options: Parameters<typeof serverOf>[0]) {
  const { list, asked } = serverOf(options), abort = new AbortController();
  let draw = () => {}, frames = 0;
  await list.follow(abort.signal, (next) => (draw = next, frames++));
  const before = asked.length;
  draw();
  return { list, frames, stream: asked.slice(0, before), then: asked.slice(before) };
}

const state = (run: string) => ({ kind: "state", run });

Deno.test("the stream begins after the newest event that the list has, so that nothing is told again", async () => {
  const { list, stream, frames } = await followed({ newest: "99" });
  assert.deepEqual(stream.slice(0, 2), ["/v1/runs", "/v1/events after 99"]);
  assert.equal(frames, 0);
  assert.deepEqual(list.runs.value?.map(({ id }) => id), ["old"]);
});

Deno.test("a run is asked for once in a frame, however many events it had", async () => {
  const { list, frames, then } = await followed({
    newest: "99",
    events: [state("old"), { kind: "created", run: "new" }, state("new"), state("old"), state("old")],
  });
  assert.equal(frames, 1);
  assert.deepEqual(then, ["/v1/runs/old", "/v1/runs/new"]);
  const shown = () => list.runs.value?.map(({ id, state }) => `${id} ${state}`).join();
  await new Promise<void>((resolve) =>
    list.runs.subscribe(() => shown() === "new completed,old completed" && resolve())
  );
});

Deno.test("when many runs changed at once, the list is asked for", async () => {
  const of = (count: number) => ({
    newest: "99",
    events: Array.from({ length: count }, (_, i) => state(`run_${i}`)),
  });
  assert.equal((await followed(of(MOST_SINGLE))).then.length, MOST_SINGLE);
  assert.deepEqual((await followed(of(MOST_SINGLE + 1))).then, ["/v1/runs"]);
});

Deno.test("a server without events, as in view mode, is not asked for them", async () => {
  const { list, stream } = await followed({ newest: null });
  assert.deepEqual(stream, ["/v1/runs"]);
  assert.equal(list.is_live.value, true);
});
