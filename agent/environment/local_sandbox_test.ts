import { equal } from "node:assert/strict";
import { systemClock } from "../../core/clock.ts";
import { withFolder } from "../../tests/folder.ts";
import { LocalSandbox } from "./local_sandbox.ts";

const { signal } = new AbortController();
const options = { limits: { exec_timeout_secs: 300 }, clock: systemClock };

Deno.test("a program reads its input to the end, or ends without it", () =>
  withFolder(async (folder) => {
    const sandbox = new LocalSandbox(await Deno.realPath(folder), options);
    const text = "zwölf\n".repeat(100_000);
    const count = await sandbox.run({ argv: ["wc", "-lc"], stdin: text }, signal);
    equal(count.stdout.trim().replaceAll(/ +/g, " "), "100000 700000");
    const none = await sandbox.run({ argv: ["wc", "-c"] }, signal);
    equal(none.stdout.trim(), "0");
    const unread = await sandbox.run({ argv: ["sh", "-c", "exit 3"], stdin: text }, signal);
    equal(unread.code, 3);
  }));
