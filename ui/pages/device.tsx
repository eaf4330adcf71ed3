/** The server's devices, their memory, who uses them, and what this build can do. */

import type { Budget, Capabilities, Device, Run } from "../../api/types.ts";
import { RunList } from "../client/run_list.ts";
import { useCall } from "../client/use_call.ts";
import { useFollowed } from "../client/use_followed.ts";
import { Facts } from "../parts/facts.tsx";
import { bytesText, durationText, timeText } from "../parts/format.ts";
import { ListTable } from "../parts/list_table.tsx";
import { Loading } from "../parts/loading.tsx";
import { ProblemBox } from "../parts/problem.tsx";
import { StateBadge } from "../parts/state_badge.tsx";
import { hrefOf } from "../routes.ts";
import { lentTo } from "./device_lease.ts";

/** A limit of a device: bytes where it counts bytes. */
function limitText(name: string, value: number): string {
  return /Size$/.test(name) && /Buffer|Storage/.test(name) ? bytesText(value) : value.toLocaleString("en");
}

function DeviceCard({ device, is_first }: { device: Device; is_first: boolean }) {
  const { name, backend, driver, features, left_out, limits, vram_bytes, software } = device;
  return (
    <article class="panel">
      <header>
        <h3>{name}</h3>
        {is_first && <span class="tag">runs take this one</span>}
      </header>
      <Facts
        is_small
        facts={[
          ["Kind", software ? "software adapter: the processor computes" : "GPU"],
          ["Backend", backend],
          ...(driver === "" ? [] : [["Driver", driver] as const]),
          ["Memory", vram_bytes === null ? "the driver does not tell" : bytesText(vram_bytes)],
          ...(left_out.length === 0
            ? []
            : [["Not used, because of the driver", left_out.join("; ")] as const]),
        ]}
      />
      <p>
        {features.length === 0
          ? "No optional features."
          : features.map((feature) => <span key={feature} class="tag">{feature}</span>)}
      </p>
      <details class="fold">
        <summary>Limits</summary>
        <table class="list pairs">
          <tbody>
            {Object.entries(limits).map(([name, value]) => (
              <tr key={name}>
                <th scope="row">
                  <code>{name}</code>
                </th>
                <td class="number">{limitText(name, value)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </details>
    </article>
  );
}

function budgetText({ requested, total_bytes, effective_bytes }: Budget): string {
  const share = requested === "all" ? "all of it" : String(requested);
  if (effective_bytes === null) return `${share}; how much there is, is not known`;
  return total_bytes === null
    ? bytesText(effective_bytes)
    : `${bytesText(effective_bytes)} of ${bytesText(total_bytes)}`;
}

interface Feature {
  name: string;
  is_on: boolean;
  /** Why, or how to change it. */
  remark: string;
}

function featuresOf({ features, environments }: Capabilities): Feature[] {
  const { container, local, http } = environments;
  const on = (is_on: boolean, yes: string, no: string) => is_on ? yes : no;
  return [
    {
      name: "Token",
      is_on: features.auth,
      remark: on(
        features.auth,
        "requests need it",
        "auth_token is not set: whoever reaches the server may use it",
      ),
    },
    {
      name: "Serving",
      is_on: features.serving_enabled,
      remark: on(
        features.serving_enabled,
        "answers chats in OpenAI's form, and streams them",
        "off: [serving] enabled = true in the server's configuration switches it on",
      ),
    },
    {
      name: "MCP",
      is_on: features.mcp,
      remark: on(features.mcp, "tools of MCP servers", "not in this build"),
    },
    {
      name: "Environments in containers",
      is_on: container.available,
      remark: container.reason ?? on(container.available, "ready", "not available"),
    },
    {
      name: "Environments on this machine",
      is_on: local,
      remark: on(local, "ready", "not in this build"),
    },
    { name: "Environments over HTTP", is_on: http, remark: on(http, "ready", "not in this build") },
  ];
}

function Features({ capabilities }: { capabilities: Capabilities }) {
  return (
    <ListTable columns={["Feature", "State", "Why"]}>
      {featuresOf(capabilities).map(({ name, is_on, remark }) => (
        <tr key={name}>
          <th scope="row">{name}</th>
          <td>
            <span class={is_on ? "badge is-on" : "badge is-off"}>
              <span aria-hidden="true">{is_on ? "✓" : "–"}</span> {is_on ? "on" : "off"}
            </span>
          </td>
          <td class="prose">{remark}</td>
        </tr>
      ))}
    </ListTable>
  );
}

function RunLine({ run: { id, name, state, created_at, progress } }: { run: Run }) {
  return (
    <li>
      <a href={hrefOf(["runs", id])}>{name}</a> <StateBadge state={state} />
      <span class="quiet">
        {state === "queued"
          ? `waits since ${timeText(created_at)}`
          : `update ${progress.update}${progress.updates === null ? "" : ` of ${progress.updates}`}`}
        {progress.eta_seconds !== null && ` · ${durationText(progress.eta_seconds)} left`}
      </span>
    </li>
  );
}

/** The runs that the device is lent to, and those that wait for it; both live. */
function Lease({ slots }: { slots: number }) {
  const list = useFollowed((api) => new RunList(api));
  const runs = list.runs.value, error = list.error.value;
  if (error !== null) return <ProblemBox error={error} onRetry={() => location.reload()} />;
  if (runs === null) return <p class="loading">Loading the runs …</p>;
  const { holders, queue } = lentTo(runs);
  return (
    <>
      {!list.is_live.value && <p class="quiet" role="status">The server is away; trying again …</p>}
      <p aria-live="polite">
        {holders.length === 0
          ? "No run has the device."
          : `${holders.length} of ${slots === 1 ? "1 slot" : `${slots} slots`} for runs in use.`}
      </p>
      {holders.length > 0 && <ul class="lease">{holders.map((run) => <RunLine key={run.id} run={run} />)}
      </ul>}
      {queue.length > 0 && (
        <>
          <h3>Waiting, the oldest run first</h3>
          <ul class="lease">{queue.map((run) => <RunLine key={run.id} run={run} />)}</ul>
        </>
      )}
    </>
  );
}

function Sections({ capabilities }: { capabilities: Capabilities }) {
  const { devices, budgets, limits, algorithms, tensor_types, architectures } = capabilities;
  return (
    <>
      <section aria-label="Devices">
        <h2>Devices</h2>
        {devices.length === 0 && (
          <p>No device is available, so nothing can train here. `svc doctor` on the server says why.</p>
        )}
        <div class="panels">
          {devices.map((device, i) => <DeviceCard key={i} device={device} is_first={i === 0} />)}
        </div>
      </section>
      <section aria-label="Use">
        <h2>In use</h2>
        <Lease slots={limits.max_concurrent_runs} />
      </section>
      <section aria-label="Memory">
        <h2>Memory that runs may take</h2>
        <Facts
          is_small
          facts={[["Device", budgetText(budgets.vram)], ["Machine", budgetText(budgets.ram)]]}
        />
      </section>
      <section aria-label="Features">
        <h2>Features</h2>
        <Features capabilities={capabilities} />
      </section>
      <section aria-label="Build">
        <h2>What it can train</h2>
        <Facts
          is_small
          facts={[
            ["Algorithms", algorithms.join(", ")],
            ["Architectures", architectures.join(", ")],
            ["Weights", tensor_types.join(", ")],
            ["Largest dataset", bytesText(limits.max_dataset_bytes)],
            ["Largest request", bytesText(limits.max_body_bytes)],
          ]}
        />
      </section>
    </>
  );
}

export function DevicePage() {
  const health = useCall("GET /v1/health", {}), capabilities = useCall("GET /v1/capabilities", {});
  return (
    <div class="device">
      <header class="page-head">
        <h1>Device</h1>
        {health.value && (
          <p class="quiet">
            svc {health.value.version}, up for {durationText(health.value.uptime_seconds)}
          </p>
        )}
      </header>
      <Loading of={capabilities} what="what the server has">
        {(capabilities) => <Sections capabilities={capabilities} />}
      </Loading>
    </div>
  );
}
