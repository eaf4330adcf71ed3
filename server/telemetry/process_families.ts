/** Metrics of the server's process, with the names that Prometheus' own clients use. */

import process from "node:process";
import { VERSION } from "../../core/version.ts";
import type { Family } from "./exposition.ts";

/** The number of open files; null on systems where it cannot be read. */
async function openFiles(): Promise<number | null> {
  if (Deno.build.os !== "linux") return null;
  try {
    let count = 0;
    for await (const _ of Deno.readDir("/proc/self/fd")) count++;
    return count;
  } catch {
    return null;
  }
}

function gauge(name: string, help: string, value: number): Family {
  return { name, type: "gauge", help, samples: [{ value }] };
}

/** @param started_ms When the server started, in milliseconds since 1970. */
export async function processFamilies(started_ms: number): Promise<Family[]> {
  const { rss, heapUsed, external } = Deno.memoryUsage(), files = await openFiles();
  const { user, system } = process.cpuUsage();
  return [
    {
      name: "svc_build_info",
      type: "gauge",
      help: "The version of the program and of Deno; always 1.",
      samples: [{ labels: { version: VERSION, deno: Deno.version.deno }, value: 1 }],
    },
    {
      name: "process_cpu_seconds_total",
      type: "counter",
      help: "Processor time that the process has used, the system's work for it included.",
      samples: [{ value: (user + system) / 1e6 }],
    },
    gauge("process_resident_memory_bytes", "Memory of the process that is in RAM.", rss),
    gauge(
      "process_start_time_seconds",
      "When the server started, in seconds since 1970.",
      started_ms / 1000,
    ),
    ...(files === null ? [] : [gauge("process_open_fds", "Open files and sockets of the process.", files)]),
    gauge("svc_heap_used_bytes", "Memory of the JavaScript heap that is in use.", heapUsed),
    gauge("svc_external_memory_bytes", "Memory of buffers outside of the heap.", external),
  ];
}
