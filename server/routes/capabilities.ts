/** The capabilities of this server. */

import { capabilities, capabilitiesSchema } from "../resources/capabilities.ts";
import { json, type Route, route } from "../routing/route.ts";

const getCapabilities = route({
  method: "GET",
  path: "/v1/capabilities",
  operation: "get_capabilities",
  summary: "Features, devices, budgets and what this build has.",
  in_view_mode: true,
  answers: {
    200: { description: "What there is.", content: { "application/json": capabilitiesSchema } },
  },
  async handler({ services }) {
    const ram_bytes = Deno.systemMemoryInfo().total;
    const { config, has_interface } = services;
    const [devices, containers] = await Promise.all([services.devices(), services.containers()]);
    return json(200, capabilities(config, { devices, ram_bytes, has_interface, containers }));
  },
});

export const CAPABILITIES_ROUTES: readonly Route[] = [getCapabilities];
