import assert from "node:assert/strict";
import { cancelNote, tagsOf } from "./run_commands.ts";

Deno.test("who is asked whether to cancel a run is told of its checkpoints", () => {
  const config = { checkpoint: {} };
  assert.match(cancelNote({ state: "running", config }), /writes a checkpoint first/);
  assert.equal(cancelNote({ state: "running", config: {} }), "It cannot be resumed.");
  assert.match(cancelNote({ state: "paused", config }), /checkpoints stay/);
  assert.equal(cancelNote({ state: "queued", config }), "It cannot be resumed.");
});

Deno.test("tags stand between commas, each once", () => {
  assert.deepEqual(tagsOf(" night, lr sweep,, night ,"), ["night", "lr sweep"]);
  assert.deepEqual(tagsOf(" "), []);
});
