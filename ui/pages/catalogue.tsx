/** What the operator declares and the server finds, and how a configuration names it. */

import type { ComponentChildren } from "preact";
import type { Environment, Judge, McpServer, ModelFile, Reward } from "../../api/types.ts";
import { allPages, type Api } from "../client/api.ts";
import { useLoad } from "../client/use_call.ts";
import { CopyButton } from "../parts/copy_button.tsx";
import { bytesText, countText } from "../parts/format.ts";
import { Loading } from "../parts/loading.tsx";
import { fileName, useModelFiles } from "../parts/model_choice.tsx";
import { NAMED_IN } from "./catalogue.ts";

type Entry = Environment | Judge | McpServer | Reward;
type Asked = { query: { limit: number; cursor?: string }; signal: AbortSignal };

interface Section {
  list: "environments" | "rewards" | "judges" | "mcp_servers";
  title: string;
  /** What an entry is for. */
  purpose: string;
  /** How an operator declares one. */
  declared_by: string;
  load(api: Api, signal: AbortSignal): Promise<readonly Entry[]>;
}

const SECTIONS: readonly Section[] = [
  {
    list: "environments",
    title: "Environments",
    purpose: "Where attempts act: it has the files and tools, and may verify what was done.",
    declared_by: "[[environments]]",
    load: (api, signal) =>
      every(
        (query) => api.call("GET /v1/environments", { query, signal }),
        ({ environments }) => environments,
      ),
  },
  {
    list: "rewards",
    title: "Rewards",
    purpose: "Programs that grade attempts.",
    declared_by: "[[rewards]]",
    load: (api, signal) =>
      every((query) => api.call("GET /v1/rewards", { query, signal }), ({ rewards }) => rewards),
  },
  {
    list: "judges",
    title: "Judges",
    purpose: "Models that grade the attempts at a scenario by comparing them.",
    declared_by: "[[judges]]",
    load: (api, signal) =>
      every((query) => api.call("GET /v1/judges", { query, signal }), ({ judges }) => judges),
  },
  {
    list: "mcp_servers",
    title: "MCP servers",
    purpose: "Tools for the model, by the Model Context Protocol.",
    declared_by: "[[mcp_servers]]",
    load: (api, signal) =>
      every((query) => api.call("GET /v1/mcp-servers", { query, signal }), ({ mcp_servers }) => mcp_servers),
  },
];

/** All entries of a list. */
async function every<P extends { next_cursor: string | null }>(
  page: (query: Asked["query"]) => Promise<P>,
  entriesOf: (page: P) => readonly Entry[],
): Promise<readonly Entry[]> {
  return (await allPages(page)).flatMap(entriesOf);
}

/** What an entry is, and the lines that name it. */
function Card({ title, type, lines, children }: {
  title: string;
  type: string;
  lines: string;
  children: ComponentChildren;
}) {
  return (
    <li class="entry">
      <header>
        <h3>{title}</h3>
        <span class="tag">{type}</span>
      </header>
      {children}
      <div class="snippet">
        <pre>{lines}</pre>
        <CopyButton text={lines} what={`the lines that name ${title}`} />
      </div>
    </li>
  );
}

function Entries({ section: { list, title, purpose, declared_by, load } }: { section: Section }) {
  const loaded = useLoad(load, list);
  return (
    <section aria-label={title}>
      <h2>{title}</h2>
      <p class="quiet">{purpose}</p>
      <Loading of={loaded} what={title}>
        {(entries) =>
          entries.length === 0
            ? (
              <p>
                None. The operator declares them as <code>{declared_by}</code> in the server's configuration.
              </p>
            )
            : (
              <ul class="entries">
                {entries.map(({ id, type, description }) => (
                  <Card key={id} title={id} type={type} lines={NAMED_IN[list](id)}>
                    <p>{description || <span class="quiet">no description</span>}</p>
                  </Card>
                ))}
              </ul>
            )}
      </Loading>
    </section>
  );
}

/** What a model file is, in words. */
function modelText(
  { architecture, parameters, size_bytes, tensor_types, context_length }: ModelFile,
): string {
  const parts = [
    architecture,
    parameters !== null && `${countText(parameters)} parameters`,
    bytesText(size_bytes),
    tensor_types.join(" "),
    context_length !== null && `context ${context_length.toLocaleString("en")}`,
  ];
  return parts.filter(Boolean).join(" · ");
}

/** A file of the server. */
function FileCard({ file }: { file: ModelFile }) {
  const { path, name, type, trainable, chat_template, tool_call_format, problem } = file;
  return (
    <Card
      title={name ?? fileName(path)}
      type={type ?? "unreadable"}
      lines={NAMED_IN[type === "adapter" ? "adapters" : "models"](path)}
    >
      <p>{modelText(file)}</p>
      {type === "model" && (
        <p>
          {trainable ? "Can be trained" : "Cannot be trained"}
          {chat_template ? ", has a chat template" : ", has no chat template"}
          {tool_call_format !== null && `, tool calls: ${tool_call_format}`}.
        </p>
      )}
      {problem !== null && <p class="field-error">{problem}</p>}
    </Card>
  );
}

function Files({ files, title, purpose }: { files: readonly ModelFile[]; title: string; purpose: string }) {
  return (
    <section aria-label={title}>
      <h2>{title}</h2>
      <p class="quiet">{purpose}</p>
      {files.length === 0
        ? <p>None.</p>
        : <ul class="entries">{files.map((file) => <FileCard key={file.path} file={file} />)}</ul>}
    </section>
  );
}

function ModelFiles() {
  const is_adapter = ({ type }: ModelFile) => type === "adapter";
  return (
    <Loading of={useModelFiles()} what="the models">
      {(files) => (
        <>
          <Files
            files={files.filter((file) => !is_adapter(file))}
            title="Models"
            purpose="GGUF files of models below the server's path_roots."
          />
          <Files
            files={files.filter(is_adapter)}
            title="Adapters"
            purpose="GGUF files of adapters below the server's path_roots. A run can start from one."
          />
        </>
      )}
    </Loading>
  );
}

export function CataloguePage() {
  return (
    <>
      <header class="page-head">
        <h1>Catalogue</h1>
      </header>
      <p>What a configuration may name on this server, and the lines that name it.</p>
      <div class="catalogue">
        {SECTIONS.map((section) => <Entries key={section.list} section={section} />)}
        <ModelFiles />
      </div>
    </>
  );
}
