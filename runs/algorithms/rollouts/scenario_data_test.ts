import assert from "node:assert/strict";
import { writeRecording } from "../../../agent/recording/recording_file.ts";
import type { BuiltToolHost } from "../../../agent/configured.ts";
import { fakeTool, fakeToolHost, type FakeToolHostOptions } from "../../../agent/tools/tool_host_fake.ts";
import { fixturePath } from "../../../tests/fixture.ts";
import { withFolder } from "../../../tests/folder.ts";
import { testConfig } from "../../config_testing.ts";
import { loadModelParts } from "../../session/model_parts.ts";
import { readScenarioData } from "./scenario_data.ts";

const path = await fixturePath("models/tiny-agent-q8_0.gguf");

const env = { toolset: "files", verify: { command: ["true"] } };
const task = (id: string) => JSON.stringify({ id, user: "Do it.", metadata: { env } });

/** The scenarios of a run with a tool host beside its environment; the host is returned with them. */
function readWith(options: FakeToolHostOptions) {
  const host = fakeToolHost({ name: "the host clock", ...options });
  const kind: BuiltToolHost = {
    applies: () => true,
    open: () => [host],
    needs: () => ({}),
    listing_needs: () => ({}),
  };
  const data = withFolder(async (root) => {
    const config = testConfig(root);
    config.model.path = path;
    await Deno.writeTextFile(config.agent!.scenarios, ["a", "b"].map(task).join("\n"));
    return await readScenarioData(config, await loadModelParts(config.model, {}), { tool_hosts: [kind] });
  });
  return { host, data };
}

Deno.test("the tools of a second host are listed once at plan time, and the host is closed", async () => {
  const { host, data } = readWith({});
  assert.deepEqual((await data).scenarios.map(({ id }) => id), ["a", "b"]);
  assert.deepEqual(host.count, { listed: 1, opened: 0, closed: 0, left: 1 });
});

Deno.test("a second host with a name of the environment's tools is refused at the first scenario", async () => {
  const { host, data } = readWith({ tools: [fakeTool("read_file")] });
  await assert.rejects(data, {
    code: "config_invalid",
    message: /scenarios\.jsonl:1, scenario "a": the name "read_file" is not unique: .* and the host clock/,
  });
  assert.equal(host.count.left, 1);
});

Deno.test("a second host that cannot list its tools is named, not a scenario", async () => {
  const list = () => {
    throw new Error("exit status 3");
  };
  const { host, data } = readWith({ list });
  await assert.rejects(data, {
    code: "environment_failed",
    message: "Cannot list the tools of the host clock: exit status 3",
  });
  assert.equal(host.count.left, 1);
});

Deno.test("a replay takes the tools from its recordings and asks no host", async () => {
  await withFolder(async (root) => {
    const config = testConfig(root), host = fakeToolHost();
    config.model.path = path;
    await Deno.writeTextFile(config.agent!.scenarios, ["a", "b"].map(task).join("\n"));
    const kind: BuiltToolHost = {
      ...{ applies: () => true, open: () => [host], needs: () => ({}), listing_needs: () => ({}) },
    };
    const parts = await loadModelParts(config.model, {}), recordings = `${root}/recordings`;
    const read = () => readScenarioData(config, parts, { tool_hosts: [kind], recordings });
    await assert.rejects(read(), { code: "path_not_found" });
    const answer = { name: "files", version: "1", tools: [fakeTool("other")] };
    const catalogs = [{ scenarios: ["a"], answer }];
    await writeRecording(recordings, { format: 2, rollout: "update_000001", complete: true, catalogs }, []);
    assert.deepEqual((await read()).scenarios.map(({ id }) => id), ["a", "b"]);
    assert.deepEqual([host.count.listed, host.count.opened], [0, 0]);
    await Deno.writeTextFile(`${recordings}/update_000002.jsonl.gz`, "");
    await assert.rejects(read(), { code: "format_invalid", message: /update_000002\.jsonl\.gz: line 1/ });
  });
});
