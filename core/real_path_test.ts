import assert from "node:assert/strict";
import { join } from "node:path";
import { withFolder } from "../tests/folder.ts";
import { fileIdentity, pathSteps, realPathOf, realPlaceOf } from "./real_path.ts";

Deno.test("links are followed in existing paths, and the rest stays as written", () =>
  withFolder(async (root) => {
    await Deno.mkdir(`${root}/blobs`);
    await Deno.mkdir(`${root}/snapshots/main`, { recursive: true });
    await Deno.writeTextFile(`${root}/blobs/3f`, "weights");
    await Deno.symlink("../../blobs/3f", `${root}/snapshots/main/model.gguf`);
    await Deno.symlink("snapshots", `${root}/hub`);
    await Deno.symlink("nowhere", `${root}/dangling`);
    const model = `${root}/hub/main/model.gguf`;
    assert.equal(await realPathOf(model), `${root}/blobs/3f`);
    assert.equal(await realPlaceOf(model), `${root}/snapshots/main/model.gguf`);
    assert.equal(await realPathOf(`${root}/hub/new/run/x`), `${root}/snapshots/new/run/x`);
    assert.equal(await realPathOf(`${root}/dangling/x`), `${root}/dangling/x`);
    assert.equal(await realPathOf("/"), "/");
  }));

Deno.test("every name of a file has its identity, hard links too, and no other file has it", () =>
  withFolder(async (root) => {
    await Deno.writeTextFile(`${root}/a`, "one");
    await Deno.writeTextFile(`${root}/b`, "one");
    await Deno.link(`${root}/a`, `${root}/hard`);
    await Deno.symlink("a", `${root}/soft`);
    const of = (name: string) => fileIdentity(join(root, name));
    assert.equal(await of("hard"), await of("a"));
    assert.equal(await of("soft"), await of("a"));
    assert.notEqual(await of("b"), await of("a"));
    assert.notEqual(await of("new"), await of("other"));
    assert.equal(await of("new/x"), await of("new/x"));
  }));

Deno.test("the steps of a path go from it up to the root", () =>
  withFolder(async (root) => {
    await Deno.symlink(".", `${root}/here`);
    const steps = await pathSteps(`${root}/here/deep/file`);
    const found = steps.find((step) => step.below.length === 2)!;
    assert.deepEqual(found, { identity: await fileIdentity(root), below: ["deep", "file"] });
    assert.equal(steps.at(-1)!.identity, await fileIdentity("/"));
    assert.deepEqual(steps[0]!.below, []);
  }));
