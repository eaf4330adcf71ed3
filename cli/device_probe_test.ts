import assert from "node:assert/strict";
import { ServiceError } from "../core/errors.ts";
import type { DeviceRequest } from "../core/device.ts";
import { ASSUMED_CARD } from "../tests/assumed_device.ts";
import { describeDevices } from "./device_probe.ts";

/** A machine with these adapters; each that is opened has to be destroyed. */
function machine({ gpu, software }: { gpu: boolean; software: boolean }) {
  let opened = 0;
  const open = ({ device }: DeviceRequest) => {
    const is_software = device === "software" || !gpu;
    if (is_software && !software) return Promise.reject(new ServiceError("device_unavailable", "none"));
    opened++;
    const facts = { ...ASSUMED_CARD.facts, software: is_software };
    return Promise.resolve({ ...ASSUMED_CARD, facts, device: { destroy: () => void opened-- } });
  };
  return { open, opened: () => opened };
}

Deno.test("beside a GPU the software adapter is described too", async () => {
  for (
    const [gpu, software, expected] of [
      [true, true, [false, true]],
      [true, false, [false]],
      [false, true, [true]],
      [false, false, []],
    ] as const
  ) {
    const { open, opened } = machine({ gpu, software });
    assert.deepEqual((await describeDevices(open)).map((device) => device.software), expected);
    assert.equal(opened(), 0);
  }
  const failing = () => Promise.reject(new Error("the driver failed"));
  await assert.rejects(describeDevices(failing), /the driver failed/);
});
