import assert from "node:assert/strict";
import { withFolder } from "../tests/folder.ts";
import { testContext, testTerminal } from "./context_fake.ts";
import { EXIT } from "./exit_codes.ts";
import { runCli } from "./program.ts";

const skipped = Deno.build.os === "windows" ? " (skipped: needs scripts that are programs)" : "";

Deno.test({
  name: `the image of profile typescript takes no other Deno than that of its tag${skipped}`,
  ignore: skipped !== "",
  fn: () =>
    withFolder(async (root) => {
      const program = `${root}/deno`;
      for (
        const [line, reason] of [
          ["echo deno 1.2.3", "is Deno 1.2.3"],
          ["echo v22.1.0", "does not say which Deno it is"],
          [null, "does not say which Deno it is"],
        ] as const
      ) {
        if (line === null) await Deno.remove(program);
        else await Deno.writeTextFile(program, `#!/bin/sh\n${line}\n`, { mode: 0o755 });
        const terminal = testTerminal();
        const code = await runCli(
          ["images", "build", "typescript", "--deno", program],
          testContext({ terminal }),
        );
        assert.equal(code, EXIT.usage);
        assert.equal(
          terminal.err,
          `svc: Cannot build the image of profile typescript: ${program} ${reason}; name the program of Deno ` +
            `${Deno.version.deno} with --deno\n`,
        );
      }
    }),
});
