import { deepEqual, equal, rejects } from "node:assert/strict";
import { ServiceError } from "../core/errors.ts";
import { MAX_REPORTED_PROBLEMS, readRows } from "./problems.ts";

/** Rows that are numbers; what is not is refused with its line. */
async function read(text: string, max_rows?: number): Promise<number[]> {
  const path = await Deno.makeTempFile();
  try {
    await Deno.writeTextFile(path, text);
    return await readRows(path, { max_rows }, ({ line, text }) => {
      if (text === "boom") throw new Error("broken");
      if (Number.isNaN(Number(text))) throw new ServiceError("data_invalid", `line ${line}`, { line });
      return Number(text);
    });
  } finally {
    await Deno.remove(path);
  }
}

const problemLines = (text: string) =>
  read(text).then(() => [], (error) => error.details.problems.map(({ line }: { line: number }) => line));

Deno.test("rows come in the file's order, as many as wanted", async () => {
  deepEqual(await read("3\n1\n2\n"), [3, 1, 2]);
  deepEqual(await read("3\n1\nx\n", 2), [3, 1]);
});

Deno.test("one error names the broken lines, also those that cannot be read", async () => {
  deepEqual(await problemLines("1\nx\n2\ny"), [2, 4]);
  deepEqual(await problemLines("x\n\n\n2\ny"), [1, 2, 5], "of blank lines the first is named");
  equal((await problemLines("x\n".repeat(2 * MAX_REPORTED_PROBLEMS))).length, MAX_REPORTED_PROBLEMS);
});

Deno.test("an empty file says so, and what is no problem of the data comes at once", async () => {
  await rejects(read(""), /the file is empty$/);
  await rejects(read("x\nboom"), /^Error: broken$/);
});
