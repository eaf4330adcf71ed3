import { assert } from "../../core/errors.ts";
import { toolsetContract } from "../tools/toolset_contract.ts";
import { findIsolation } from "./bubblewrap.ts";
import { bubblewrapLack, openLocalSandbox } from "./local_sandbox_testing.ts";
import { denoFolder } from "./program.ts";

const exists = (path: string) => Deno.stat(path).then(() => true, () => false);

const lacks = {
  ...!await exists("/usr/bin/python3") && { python: "this machine has no /usr/bin/python3" },
  ...denoFolder() === null && { typescript: "this program is no deno" },
};

toolsetContract("local", () => openLocalSandbox(null), { lacks });

const lack = await bubblewrapLack();
if (lack === null) {
  toolsetContract("local under bubblewrap", async () => {
    const { isolation } = await findIsolation();
    assert(isolation, "bubblewrap works where its tests run");
    return await openLocalSandbox(isolation);
  }, { lacks });
} else {
  Deno.test({ name: `local under bubblewrap (skipped: ${lack})`, ignore: true, fn() {} });
}
