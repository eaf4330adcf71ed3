/** `svc images build` from Debian packages, without a registry, and the built-in toolsets in what it makes. */

import { match } from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { RunningContainer } from "../agent/environment/container/container.ts";
import { ContainerSandbox } from "../agent/environment/container/container_sandbox.ts";
import { profileImage } from "../agent/environment/container_image.ts";
import {
  hasImage,
  LAB_PROFILE,
  labEngine,
  NO_CONTAINERS,
  REQUIRE_CONTAINERS,
} from "../agent/environment/container_testing.ts";
import { toolsetContract } from "../agent/tools/toolset_contract.ts";
import { ManualClock } from "../core/clock_fake.ts";

const CLI = fileURLToPath(new URL("../cli.ts", import.meta.url));

/** The images by profile. One that was built from this recipe before is not built again. */
const PROFILES = ["python", "typescript"] as const;

async function buildImage(profile: string): Promise<string> {
  const args = ["run", "-A", "--no-check", CLI, "images", "build", profile, "--from", "debian"];
  const { stdout, stderr } = await new Deno.Command(Deno.execPath(), { args, stdin: "null" }).output();
  return new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
}

/** Why the images cannot be had; null when they can. */
async function missingImages(): Promise<string | null> {
  if (NO_CONTAINERS !== null) return NO_CONTAINERS;
  for (const profile of PROFILES) {
    const image = profileImage(profile);
    if (!await hasImage(image)) {
      const said = await buildImage(profile);
      if (!await hasImage(image)) return `svc images build ${profile} failed: ${said}`;
      match(said, new RegExp(`built ${RegExp.escape(image)}`));
    }
  }
  return null;
}

const missing = await missingImages();
if (missing !== null && REQUIRE_CONTAINERS) throw new Error(`containers are required: ${missing}`);

for (const profile of PROFILES) {
  const name = `containers, image of profile ${profile}`;
  if (missing !== null) {
    Deno.test({ name: `${name} (skipped: ${missing.replaceAll("\n", " ")})`, ignore: true, fn() {} });
    continue;
  }
  toolsetContract(name, async () => {
    const limits = { cpus: 1, memory_mb: 1024 }, labels = { "svc.test": "tools" };
    const options = {
      engine: labEngine(),
      image: profileImage(profile),
      seccomp_profile: LAB_PROFILE,
      allow_network: false,
      limits,
      labels,
    };
    const name = `svc-test-${crypto.randomUUID()}`;
    const container = await RunningContainer.start(options, name, new AbortController().signal);
    const clock = new ManualClock();
    return {
      sandbox: new ContainerSandbox(container, { limits: { exec_timeout_secs: 30 }, clock }),
      clock,
      close: () => container.end(),
    };
  }, {
    lacks: profile === "python"
      ? { typescript: "it is another profile's" }
      : { python: "it is another profile's" },
  });
}
