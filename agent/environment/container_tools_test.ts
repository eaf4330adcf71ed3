/** The built-in toolsets in the images of the profiles. */

import { ManualClock } from "../../core/clock_fake.ts";
import { toolsetContract } from "../tools/toolset_contract.ts";
import { RunningContainer } from "./container/container.ts";
import { ContainerSandbox } from "./container/container_sandbox.ts";
import { profileImage } from "./container_image.ts";
import { LAB_PROFILE, labEngine, lacksImage } from "./container_testing.ts";

for (const profile of ["python", "typescript"] as const) {
  const image = profileImage(profile), lack = await lacksImage(image);
  if (lack !== null) {
    Deno.test({ name: `containers, image of profile ${profile} (skipped: ${lack})`, ignore: true, fn() {} });
    continue;
  }
  toolsetContract(`containers, image of profile ${profile}`, async () => {
    const limits = { cpus: 1, memory_mb: 1024 }, labels = { "svc.test": "tools" };
    const options = {
      engine: labEngine(),
      image,
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
