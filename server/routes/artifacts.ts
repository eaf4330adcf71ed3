/** Files of a run. */

import { z } from "zod";
import { TEXTS } from "../../config/text/text_kinds.ts";
import type { Content } from "../../runs/results/content.ts";
import {
  type ArtifactName,
  ARTIFACTS,
  contentDisposition,
  fileName,
  findArtifact,
  listArtifacts,
} from "../resources/artifacts.ts";
import { allowsRange, byteRange, namesEtag } from "../http/byte_range.ts";
import { findRun } from "../resources/find_run.ts";
import { ANY_KEYS, nextCursor, PagedList } from "../http/page.ts";
import { notFound } from "../http/problems.ts";
import { json, type Route, route } from "../routing/route.ts";
import type { StoredRun } from "../sources/run_source.ts";
import type { Services } from "../routing/services.ts";

const artifactSchema = z.strictObject({
  name: z.enum(Object.keys(ARTIFACTS) as ArtifactName[]).meta({
    description: Object.entries(ARTIFACTS).map(([name, { description }]) =>
      `${name}: ${description}`
    ).join("; ") + ".",
  }),
  file_name: z.string().meta({ description: "The name under which a download is saved.", ...TEXTS.data }),
  content_type: z.string(),
  size_bytes: z.int().gte(0).meta({
    description: "The size of a download now; a live run's files still grow.",
  }),
  modified_at: z.string().meta({ format: "date-time" }),
}).meta({ id: "Artifact" });

type Found = Awaited<ReturnType<typeof listArtifacts>>[number];

function cardOf(run: StoredRun, { name, content: { size_bytes, modified_ms } }: Found) {
  return {
    name,
    file_name: fileName(run, name),
    content_type: ARTIFACTS[name].content_type,
    size_bytes,
    modified_at: new Date(modified_ms).toISOString(),
  };
}

const ARTIFACT_LIST = new PagedList("artifacts", ANY_KEYS);

const listRunArtifacts = route({
  method: "GET",
  path: "/v1/runs/{id}/artifacts",
  operation: "list_artifacts",
  summary: "The artefacts that a run has now, complete ones only.",
  query: z.strictObject(ARTIFACT_LIST.query),
  answers: {
    200: {
      description: "A page of them, in the order of the inventory.",
      content: {
        "application/json": z.strictObject({ artifacts: z.array(artifactSchema), next_cursor: nextCursor })
          .meta({ id: "ArtifactList" }),
      },
    },
  },
  find: findRun,
  async handler({ found: run, query: { limit, cursor }, services }) {
    const all = await listArtifacts(run, services);
    const { items, next_cursor } = ARTIFACT_LIST.page(all, { limit, cursor, keyOf: ({ name }) => name });
    return json(200, { artifacts: items.map((artifact) => cardOf(run, artifact)), next_cursor });
  },
});

async function findRunArtifact({ id, name }: { id: string; name: string }, services: Services) {
  const run = await findRun({ id }, services);
  const content = await findArtifact(run, name, services);
  if (!content) {
    throw notFound("The run has no such artefact; GET its artifacts for those that it has", "/path/name");
  }
  return { run, name: name as ArtifactName, content };
}

const bytes = z.string().meta({ description: "The bytes of the artefact.", format: "binary" });
const types = Object.fromEntries(Object.values(ARTIFACTS).map(({ content_type }) => [content_type, bytes]));

const FILE_HEADERS = {
  "ETag": "Differs whenever the bytes do.",
  "Accept-Ranges": "bytes",
  "Content-Disposition": "attachment, with the name of the file (RFC 6266).",
};

/** The headers that a request for a download may have. */
const CONDITIONS = {
  "Range": z.string().optional().meta({ description: "One range of bytes, such as bytes=0-1023." }),
  "If-Range": z.string().optional().meta({
    description: "The ETag for which the range counts; with another one the answer is all of it.",
  }),
  "If-None-Match": z.string().optional().meta({ description: "The ETags of bytes that the client has." }),
};

function stream(content: Content, start: number, end: number): ReadableStream<Uint8Array<ArrayBuffer>> {
  return ReadableStream.from(content.read(start, end));
}

const downloadArtifact = route({
  method: "GET",
  path: "/v1/runs/{id}/artifacts/{name}",
  operation: "download_artifact",
  summary:
    "The bytes of an artefact. A signed link stands for the token. A range that is malformed, cannot be satisfied or has " +
    "several parts is ignored.",
  headers: CONDITIONS,
  answers: {
    200: { description: "All of it, of the length that it has now.", content: types, headers: FILE_HEADERS },
    206: {
      description: "The range.",
      content: types,
      headers: { ...FILE_HEADERS, "Content-Range": "The range, and the length of all." },
    },
    304: {
      description: "The client has these bytes (If-None-Match).",
      headers: { "ETag": FILE_HEADERS.ETag },
    },
  },
  find: findRunArtifact,
  handler({ request, found: { run, name, content } }) {
    const { size_bytes, version } = content, etag = `"${version}"`;
    if (namesEtag(request.headers.get("if-none-match"), etag)) {
      return { status: 304 as const, headers: { etag } };
    }
    const may_be_part = request.method === "GET" && allowsRange(request.headers.get("if-range"), etag);
    const range = may_be_part ? byteRange(request.headers.get("range"), size_bytes) : null;
    const { start, end } = range ?? { start: 0, end: size_bytes };
    return {
      status: range ? 206 as const : 200 as const,
      content_type: ARTIFACTS[name].content_type,
      body: stream(content, start, end),
      headers: {
        etag,
        "accept-ranges": "bytes",
        "content-length": String(end - start),
        "content-disposition": contentDisposition(fileName(run, name)),
        ...(range && { "content-range": `bytes ${start}-${end - 1}/${size_bytes}` }),
      },
    };
  },
});

const linkArtifact = route({
  method: "POST",
  path: "/v1/runs/{id}/artifacts/{name}/link",
  operation: "link_artifact",
  summary: "A signed link to one artefact, valid for 60 seconds.",
  answers: {
    200: {
      description: "The link. It ends with the server.",
      content: {
        "application/json": z.strictObject({
          url: z.string().meta({
            description: "The download's path with exp and sig, relative to the server's address.",
            format: "uri-reference",
          }),
          expires_at: z.string().meta({ format: "date-time" }),
        }).meta({ id: "ArtifactLink" }),
      },
    },
  },
  find: findRunArtifact,
  handler({ params: { id, name }, services }) {
    return json(
      200,
      services.links.sign(`/v1/runs/${encodeURIComponent(id)}/artifacts/${encodeURIComponent(name)}`),
    );
  },
});

export const ARTIFACT_ROUTES: readonly Route[] = [listRunArtifacts, downloadArtifact, linkArtifact];
