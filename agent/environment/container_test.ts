import { ManualClock } from "../../core/clock_fake.ts";
import { containerEnvironments } from "./container.ts";
import { containersOf, labOptions, needsContainers } from "./container_testing.ts";
import { environmentContract } from "./environment_contract.ts";

environmentContract({ ...needsContainers("container"), workspace: "/work" }, async () => {
  const clock = new ManualClock();
  const options = await labOptions({ pool: { max_live: 2 } }, { clock });
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
