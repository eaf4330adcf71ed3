/** The closed inventory of a run's files. */

import { createHash } from "node:crypto";
import { stringify } from "smol-toml";
import { z } from "zod";
import { TEXTS } from "../../config/text/text_kinds.ts";
import { ServiceError } from "../../core/errors.ts";
import { printable } from "../../core/text.ts";
import { changedLines } from "../../runs/results/changed_lines.ts";
import { eventTexts, observedTexts } from "../../runs/results/line_texts.ts";
import { METRICS_CSV_HEADER } from "../../runs/record/metrics_csv.ts";
import type { RunRecord } from "../../runs/record/run.ts";
import {
  adapterContent,
  eventsFile,
  logFile,
  peftFiles,
  trajectoryFiles,
} from "../../runs/results/artifact_files.ts";
import { type Content, packedContent, type PackedFile, textContent } from "../../runs/results/content.ts";
import { csvOf } from "../../runs/results/metric_series.ts";
import { shown, shownLine } from "../http/shown.ts";
import { followRun } from "./run_logs.ts";
import type { StoredRun } from "../sources/run_source.ts";
import type { Services } from "../routing/services.ts";
import { csvSize, rowsBySeq } from "../store/metric_rows.ts";

/** The facts about an artefact that are the same for all runs. */
interface ArtifactKind {
  content_type: string;
  /** The end of the name of the downloaded file, after the run's name. */
  ending: string;
  description: string;
}

/** All artefacts, in the order of the contract. */
export const ARTIFACTS = {
  adapter: {
    content_type: "application/octet-stream",
    ending: "adapter.gguf",
    description: "the adapter as GGUF",
  },
  adapter_peft: {
    content_type: "application/zip",
    ending: "peft.zip",
    description: "the adapter as a PEFT folder",
  },
  config: {
    content_type: "application/toml",
    ending: "config.toml",
    description: "the resolved configuration by ids, which can be posted",
  },
  events: { content_type: "application/x-ndjson", ending: "events.jsonl", description: "the event log" },
  metrics: { content_type: "text/csv", ending: "metrics.csv", description: "all samples of the metrics" },
  trajectories: {
    content_type: "application/zip",
    ending: "trajectories.zip",
    description: "the observe directory",
  },
  log: { content_type: "text/plain", ending: "log.txt", description: "the events for people" },
} as const satisfies Record<string, ArtifactKind>;

export type ArtifactName = keyof typeof ARTIFACTS;

/** Whether a name is in the inventory. */
function isArtifact(name: string): name is ArtifactName {
  return Object.hasOwn(ARTIFACTS, name);
}

const configSchema = z.unknown().meta(TEXTS.config);

type Finder = (run: StoredRun, services: Services) => Promise<Content | null>;

function packed(files: readonly PackedFile[], { checksums }: Services): Content | null {
  return files.length > 0 ? packedContent(files, checksums) : null;
}

/** A file of lines; of JSON, or of prose without a schema. The machine's paths are left out where they have to be. */
async function linesContent<T extends Content | null>(
  content: T,
  schema: z.ZodType | null,
  { newRedactor, measured_texts }: Services,
): Promise<Content | T> {
  const redactor = newRedactor();
  if (!content || !redactor) return content;
  const show = (line: string) => schema ? shownLine(line, schema, redactor) : redactor.text(line);
  return await changedLines(content, { show, shown_as: redactor.version, measured_texts });
}

async function trajectoriesContent(directory: string, services: Services): Promise<Content | null> {
  const files: PackedFile[] = [];
  for (const { name, content } of await trajectoryFiles(directory)) {
    files.push({ name, content: await linesContent(content, observedTexts, services) });
  }
  return packed(files, services);
}

/** How each artefact is found. */
const FINDERS: Readonly<Record<ArtifactName, Finder>> = {
  adapter: async ({ config }) => config && await adapterContent(config),
  adapter_peft: async ({ config }, services) => config && packed(await peftFiles(config), services),
  config: ({ shown_config, record }, services) =>
    Promise.resolve(shown_config && configContent(shown_config, record, services)),
  events: async ({ directory, log_bytes }, services) =>
    directory === null
      ? null
      : await linesContent(await eventsFile(directory, log_bytes), eventTexts, services),
  metrics: async (run, services) => run.directory === null ? null : await metricsContent(run, services),
  trajectories: async ({ trajectories }, services) =>
    trajectories === null ? null : await trajectoriesContent(trajectories, services),
  log: async ({ directory }, services) =>
    directory === null ? null : await linesContent(await logFile(directory), null, services),
};

function configContent(
  config: Readonly<Record<string, unknown>>,
  { created_at }: RunRecord,
  { newRedactor }: Services,
): Content {
  const redactor = newRedactor();
  const text = stringify(redactor ? shown(config, configSchema, redactor) : config) + "\n";
  const version = createHash("sha256").update(text).digest("hex").slice(0, 32);
  return textContent(text, { version, modified_ms: Date.parse(created_at) || 0 });
}

/** The metrics as CSV, up to the newest event of the index; null for a run without metrics. */
async function metricsContent(run: StoredRun, services: Services): Promise<Content | null> {
  const id = await followRun(run, services), { database } = services;
  const { last_seq, bytes } = csvSize(database, id);
  const head = new TextEncoder().encode(METRICS_CSV_HEADER);
  const log = await eventsFile(run.directory!, run.log_bytes);
  if (!log || last_seq === 0) return null;
  const size_bytes = head.length + bytes;
  return {
    size_bytes,
    version: `metrics-${last_seq}-${size_bytes}`,
    modified_ms: log.modified_ms,
    async *read(start, end) {
      let at = head.length;
      if (start < at) yield head.slice(start, end);
      for await (const row of rowsBySeq(database, { run: id })) {
        const from = Math.max(0, start - at), to = Math.min(row.csv_bytes, end - at);
        if (row.seq > last_seq || to <= 0) break;
        at += row.csv_bytes;
        if (from < to) yield new TextEncoder().encode(csvOf(row)).slice(from, to);
      }
      if (at < end) {
        throw new ServiceError("conflict", `Cannot read the metrics of ${id}: the run repeats updates`);
      }
    },
  };
}

/** The bytes that an artefact has now; null when the run does not have it. */
export async function findArtifact(
  run: StoredRun,
  name: string,
  services: Services,
): Promise<Content | null> {
  return isArtifact(name) ? await FINDERS[name](run, services) : null;
}

/** All artefacts that a run has. */
export async function listArtifacts(
  run: StoredRun,
  services: Services,
): Promise<{ name: ArtifactName; content: Content }[]> {
  const names = Object.keys(ARTIFACTS) as ArtifactName[];
  const all = await Promise.all(names.map((name) => findArtifact(run, name, services)));
  return names.flatMap((name, i) => all[i] ? [{ name, content: all[i] }] : []);
}

/** The longest run name in the name of a file, in characters. */
const MAX_NAME = 100;

/** The name of a downloaded file: the run's name without what file systems and headers do not take, and the ending. */
export function fileName(run: StoredRun, name: ArtifactName): string {
  const clean = printable(run.record.name.toWellFormed()).replaceAll(/[\t\n/\\:*?"<>|]/g, "_").trim();
  const short = [...clean].slice(0, MAX_NAME).join("").replace(/^\.+/, "");
  return `${short || run.record.id}-${ARTIFACTS[name].ending}`;
}

/** The header that names a downloaded file (RFC 6266): plain ASCII, and the exact name for clients that know it. */
export function contentDisposition(file_name: string): string {
  const ascii = file_name.replaceAll(/[^A-Za-z0-9._ -]/g, "_");
  const exact = encodeURIComponent(file_name)
    .replaceAll(/['()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);
  return `attachment; filename="${ascii}"; filename*=UTF-8''${exact}`;
}
