import assert from "node:assert/strict";
import { openCommand, readViewArguments } from "./view.ts";

Deno.test("the arguments of view", () => {
  assert.deepEqual(readViewArguments(["a"]), { observe_dir: "a", open: false, port: 0 });
  assert.deepEqual(readViewArguments(["--open", "--port", "8472", "a"]), {
    observe_dir: "a",
    open: true,
    port: 8472,
  });
  assert.deepEqual(readViewArguments(["--port=65535", "--", "-a"]), {
    observe_dir: "-a",
    open: false,
    port: 65_535,
  });
  for (
    const wrong of [[], ["a", "b"], ["a", "--port"], ["a", "--port=x"], ["a", "--port=65536"], ["a", "-x"]]
  ) {
    assert.equal(readViewArguments(wrong), null, wrong.join(" "));
  }
});

Deno.test("each system has its program that opens a URL", () => {
  const url = "http://127.0.0.1:1/";
  assert.deepEqual(openCommand(url, "linux"), ["xdg-open", url]);
  assert.deepEqual(openCommand(url, "darwin"), ["open", url]);
  assert.deepEqual(openCommand(url, "windows"), ["cmd", "/c", "start", "", url]);
});
