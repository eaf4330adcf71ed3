import { ManualClock } from "../../core/clock_fake.ts";
import { containerEnvironments } from "./container.ts";
import { containersOf, labOptions, needsContainers } from "./container_testing.ts";
import { environmentContract, TOOL_CHECKS } from "./environment_contract.ts";
import { TESTED_TOOLSETS, VERIFICATION_CHECKS } from "./verification_contract.ts";

const checks = { ...TOOL_CHECKS, ...VERIFICATION_CHECKS };
const tools = {
  ...{ table: TESTED_TOOLSETS, tools: { default: "files" } },
  scenario_toolsets: Object.keys(TESTED_TOOLSETS),
};

environmentContract({ ...needsContainers("container"), workspace: "/work", checks }, async () => {
  const clock = new ManualClock();
  const options = await labOptions({ pool: { max_live: 2 } }, { clock, tools });
  const factory = containerEnvironments(options);
  return {
    factory,
    clock,
    // Containers that are ready for the next attempt belong to none.
    leftovers: () => Promise.resolve([]),
    async close() {
      await factory.close();
      const left = await containersOf(options.owners_folder);
      await Deno.remove(options.owners_folder, { recursive: true });
      return left;
    },
  };
});
