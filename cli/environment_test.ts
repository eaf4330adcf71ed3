import { deepEqual, equal } from "node:assert/strict";
import { LOADER_VARIABLES, missingGpuVariables, SOFTWARE_THREADS } from "./environment.ts";

const ignore = Deno.build.os !== "linux";

/** Runs with a variable set or not, and puts it back. */
function withVariable(name: string, value: string | null, body: () => void): void {
  const before = Deno.env.get(name);
  const set = (value: string | null | undefined) =>
    value === null || value === undefined ? Deno.env.delete(name) : Deno.env.set(name, value);
  set(value);
  try {
    body();
  } finally {
    set(before);
  }
}

Deno.test({
  name:
    "the software driver gets SOFTWARE_THREADS where there are two or three processors, unless someone chose",
  ignore,
  fn() {
    const threads = (processors: number) => missingGpuVariables(processors).LP_NUM_THREADS;
    withVariable("LP_NUM_THREADS", null, () => {
      const four = String(SOFTWARE_THREADS);
      deepEqual([1, 2, 3, 4, 16].map(threads), [undefined, four, four, undefined, undefined]);
    });
    withVariable("LP_NUM_THREADS", "2", () => equal(threads(2), undefined));
    equal(LOADER_VARIABLES.includes("LP_NUM_THREADS"), true);
  },
});

Deno.test({
  name: "variables that are set stay as they are",
  ignore,
  fn() {
    withVariable("XDG_RUNTIME_DIR", "/there", () => equal("XDG_RUNTIME_DIR" in missingGpuVariables(), false));
    withVariable("XDG_RUNTIME_DIR", null, () => equal("XDG_RUNTIME_DIR" in missingGpuVariables(), true));
  },
});
