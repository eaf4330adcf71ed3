import assert from "node:assert/strict";
import { canFindLeftovers } from "../agent/environment/leftovers.ts";
import { engineText, findEngine } from "../agent/environment/container_engine.ts";
import { errorText } from "../core/errors.ts";
import { ENVIRONMENT_KINDS } from "../config/environments.ts";
import { findIsolation } from "../agent/environment/bubblewrap.ts";
import { isolationText } from "../agent/environment/local.ts";
import { denoFolder, SEARCH_PATH } from "../agent/environment/program.ts";
import { installCommand, leftOutFact, leftoversFact, typescriptFact } from "./doctor.ts";
import { runSvc } from "./context_fake.ts";

Deno.test("the missing command is one line that can be copied", () => {
  const install = "apt-get update && apt-get install -y libvulkan1 mesa-vulkan-drivers";
  assert.equal(installCommand("linux", true), install);
  assert.equal(installCommand("linux", false), `sudo sh -c '${install}'`);
  assert.doesNotMatch(installCommand("darwin", false), /apt-get/);
});

Deno.test("the doctor prints versions and variables, and exits with status 0, or 3 without a device", async () => {
  const { code, out } = await runSvc("doctor", "--json");
  const { device, install, facts } = JSON.parse(out);
  assert.equal(code, device === null ? 3 : 0);
  assert.equal(install === null, device !== null);
  assert.equal(facts.deno.split(" ")[0], Deno.version.deno);
  assert.ok("DENO_WEBGPU_BACKEND" in facts && "SVC_DAWN" in facts);
  if (device) {
    assert.equal(facts.webgpu, `${device.webgpu}: ${device.webgpu_reason}`);
    assert.equal(facts["forms left out"], leftOutFact(device));
  }
  assert.equal(leftOutFact({}), "none");
  assert.equal(
    leftOutFact({ left_out: ["products of segments (h)", "a tile"] }),
    "products of segments (h); a tile",
  );
  for (const [type, { programs, missing_part }] of Object.entries(ENVIRONMENT_KINDS)) {
    const use = missing_part ?? type;
    for (const name of programs) assert.ok(facts[name].includes("/") || facts[name].includes(use), name);
  }
  assert.equal(facts["local sandbox"], isolationText(await findIsolation()));
  assert.equal(facts["typescript tools"], typescriptFact(denoFolder()));
  assert.match(typescriptFact(null), /need a deno/);
  assert.match(facts["http environments"], /agent\.environment\.base_url/);
  for (const name of ["sh", "bash", "grep", "python3"]) {
    const folder = facts[name].replace(/\/[^/]*$/, "");
    assert.ok(SEARCH_PATH.split(":").includes(folder) || facts[name].includes('type "local"'), facts[name]);
  }
  const found = await findEngine().then(engineText, errorText);
  assert.equal(facts.containers, found);
  assert.equal(facts["processes that commands leave"], leftoversFact(await canFindLeftovers()));
  assert.match(leftoversFact(false), /only in the command's own process group.*grep -z/);
});
