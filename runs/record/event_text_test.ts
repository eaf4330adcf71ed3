import assert from "node:assert/strict";
import { formatRate, warningText } from "./event_text.ts";

Deno.test("a rate comes with its number of scenarios and attempts", () => {
  const rate = { rate: 0.4531, low: 0.4, high: 0.5049, n: 32, attempts: 64 };
  assert.equal(
    formatRate(rate),
    "45.3 % (95 % interval 40.0 to 50.5; n = 32 scenarios, 64 attempts)",
  );
  assert.equal(
    formatRate({ rate: 1, low: 0.963, high: 1, n: 100, attempts: 100 }),
    "100.0 % (95 % interval 96.3 to 100.0; n = 100 scenarios)",
  );
  assert.match(formatRate({ rate: 1, low: 0.2, high: 1, n: 1, attempts: 1 }), /; n = 1 scenario\)$/);
});

Deno.test("a warning has its code, and its key if any", () => {
  assert.equal(warningText({ code: "software_device", message: "slow" }), "warning software_device: slow");
  assert.equal(
    warningText({ code: "group_too_small", field: "agent.group_size", message: "set it" }),
    "warning group_too_small (agent.group_size): set it",
  );
});
