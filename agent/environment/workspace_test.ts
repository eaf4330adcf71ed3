import { equal, rejects } from "node:assert/strict";
import { join } from "node:path";
import { withFolder } from "../../tests/folder.ts";
import { WorkspaceRefusal } from "../tools/workspace_files.ts";
import { MAX_LINKS, MAX_LISTED_LINKS, MAX_PARTS, Workspace } from "./workspace.ts";

Deno.test({
  name: "a path may have at most MAX_LINKS links",
  sanitizeResources: true,
  async fn() {
    const root = await Deno.makeTempDir();
    try {
      await Deno.writeTextFile(join(root, "l0"), "end");
      for (let i = 1; i <= MAX_LINKS + 1; i++) await Deno.symlink(`l${i - 1}`, join(root, `l${i}`));
      const workspace = new Workspace(await Deno.realPath(root));
      equal(await workspace.resolve(`l${MAX_LINKS}`), join(workspace.root, "l0"));
      await rejects(workspace.resolve(`l${MAX_LINKS + 1}`), WorkspaceRefusal);
    } finally {
      await Deno.remove(root, { recursive: true });
    }
  },
});

Deno.test("a path may have at most MAX_PARTS parts, with those of its links", () =>
  withFolder(async (folder) => {
    const workspace = new Workspace(await Deno.realPath(folder));
    await Deno.symlink("a/..", join(folder, "link"));
    // The link is a part, and leads to two more.
    const rest = "a/../".repeat((MAX_PARTS - 4) / 2);
    equal(await workspace.resolve(`link/${rest}b`), join(workspace.root, "b"));
    await rejects(workspace.resolve(`link/${rest}./b`), { reason: "outside" });
  }));

Deno.test("a listing may have at most MAX_LISTED_LINKS links", () =>
  withFolder(async (folder) => {
    const workspace = new Workspace(await Deno.realPath(folder));
    for (let i = 0; i < MAX_LISTED_LINKS; i++) Deno.symlinkSync("x", join(folder, String(i)));
    equal((await workspace.list(".")).length, MAX_LISTED_LINKS);
    Deno.symlinkSync("x", join(folder, "one_more"));
    await rejects(workspace.list("."), { reason: "too_large" });
  }));

Deno.test("a file or folder that the system does not open is refused", () =>
  withFolder(async (folder) => {
    const workspace = new Workspace(await Deno.realPath(folder));
    await workspace.write("closed", "text");
    const { readTextFile, readDir } = Deno;
    // As after chmod 000; to the superuser nothing is closed.
    const close = () => {
      throw new Deno.errors.PermissionDenied("closed");
    };
    try {
      Deno.readTextFile = () => Promise.try(close);
      Deno.readDir = close;
      await rejects(workspace.read("closed"), { reason: "absent" });
      await rejects(workspace.list("."), { reason: "absent" });
    } finally {
      Object.assign(Deno, { readTextFile, readDir });
    }
  }));

Deno.test({
  name: "a workspace that this process may not write to is the environment's failure, not the model's",
  permissions: { read: true, write: false },
  async fn() {
    const written = new Workspace(Deno.cwd()).write("x.txt", "");
    await rejects(written, { code: "environment_failed", message: /Cannot use the workspace/ });
  },
});
