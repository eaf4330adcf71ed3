/** Model files under `path_roots`. */

import { createHash } from "node:crypto";
import { z } from "zod";
import { TEXTS } from "../../config/text/text_kinds.ts";
import { TOOL_CALL_FORMATS } from "../../core/chat.ts";
import { errorFromRecord, ServiceError } from "../../core/errors.ts";
import { LORA_TARGETS } from "../../core/lora_targets.ts";
import type { JobTypes } from "../../runs/jobs/job_table.ts";
import type { FoundModel } from "../../runs/models/find_models.ts";
import { jobOn, modelProblem } from "../resources/job_problems.ts";
import { ANY_KEYS, nextCursor, PagedList } from "../http/page.ts";
import { clientFile } from "../access/paths.ts";
import { json, type Route, route } from "../routing/route.ts";
import { templateProbeSchema } from "../resources/template_probe.ts";

const JSON_TYPE = "application/json";

type Description = JobTypes["describe_models"]["answer"][number];

const modelFileSchema = z.strictObject({
  path: z.string().meta({ description: "As requests may name it." }),
  size_bytes: z.int().gte(0),
  type: z.enum(["model", "adapter"]).nullable().meta({ description: "Null for a file that cannot be read." }),
  name: z.string().nullable().meta({ description: "The name that the file gives the model.", ...TEXTS.data }),
  architecture: z.string().nullable(),
  parameters: z.int().gte(0).nullable(),
  tensor_types: z.array(z.string()).meta({ description: "The types of its tensors, each once." }),
  context_length: z.int().gte(0).nullable().meta({ description: "The context that it was trained for." }),
  chat_template: z.boolean(),
  tool_call_format: z.enum(TOOL_CALL_FORMATS).nullable().meta({
    description: "How its template writes tool calls; null without a template that can be rendered.",
  }),
  trainable: z.boolean().meta({ description: "Whether this build can train it." }),
  problem: z.string().nullable().meta({ description: "Why the file cannot be read, or not be trained." }),
}).meta({ id: "ModelFile", description: "A GGUF file that requests may name." });

type ModelFile = z.output<typeof modelFileSchema>;

/** A file without facts. */
const UNREAD = {
  type: null,
  name: null,
  architecture: null,
  parameters: null,
  tensor_types: [],
  context_length: null,
  chat_template: false,
  tool_call_format: null,
  trainable: false,
  problem: null,
};

function modelFile(found: FoundModel, description: Description): ModelFile {
  const { path, size_bytes, file } = found;
  // The file may have another name than the one that is shown.
  const asShown = (text: string | null) => text && text.replaceAll(file.path, path);
  if (description.kind === null) {
    return { path, size_bytes, ...UNREAD, problem: asShown(description.error.message) };
  }
  if (description.kind === "adapter") {
    const { architecture, parameters, tensor_types } = description;
    return { path, size_bytes, ...UNREAD, type: "adapter", architecture, parameters, tensor_types };
  }
  const { name, architecture, parameters, tensor_types, context_length, chat_template } =
    description.inspection;
  const { template_probe, not_trainable } = description.inspection;
  return {
    path,
    size_bytes,
    type: "model",
    name,
    architecture,
    parameters,
    tensor_types: Object.keys(tensor_types),
    context_length,
    chat_template,
    tool_call_format: template_probe?.tool_call_format ?? null,
    trainable: not_trainable === null,
    problem: asShown(not_trainable),
  };
}

/** A header, because the contract's lists have no field for it. */
const COMPLETE = "X-Search-Complete";

const MODEL_LIST = new PagedList("models", ANY_KEYS);

const listModelFiles = route({
  method: "GET",
  path: "/v1/model-files",
  operation: "list_model_files",
  summary: "GGUF files under path_roots, by path.",
  query: z.strictObject(MODEL_LIST.query),
  answers: {
    200: {
      description: "A file that cannot be read is listed with its problem.",
      headers: { [COMPLETE]: "false when a limit ended the search, so that files are missing; else true." },
      content: {
        [JSON_TYPE]: z.strictObject({ models: z.array(modelFileSchema), next_cursor: nextCursor })
          .meta({ id: "ModelFileList" }),
      },
    },
  },
  problems: { "device-busy": [] },
  async handler({ query, request: { signal }, services: { model_files } }) {
    const { models, complete } = await model_files.find(signal);
    const { items, next_cursor } = MODEL_LIST.page(models, {
      ...query,
      // A cursor must not contain a path.
      keyOf: ({ path }) => createHash("sha256").update(path).digest("base64url"),
    });
    const descriptions = await model_files.describe(items, signal);
    const answer = { models: items.map((found, i) => modelFile(found, descriptions[i]!)), next_cursor };
    return { ...json(200, answer), headers: { [COMPLETE]: String(complete) } };
  },
});

const preflightSchema = z.strictObject({
  model: z.string().meta({ description: "As the request names it." }),
  name: z.string().nullable().meta(TEXTS.data),
  architecture: z.string(),
  parameters: z.int().gte(0),
  layers: z.int().gte(0),
  width: z.int().gte(0).nullable(),
  context_length: z.int().gte(0).nullable(),
  vocabulary: z.int().gte(0).nullable(),
  tokenizer: z.string().nullable().meta({ description: "Its kind and pre-tokenizer." }),
  tensor_types: z.record(
    z.string(),
    z.strictObject({ tensors: z.int().gte(1), bytes: z.int().gte(0), readable: z.boolean() }),
  ).meta({ description: "By type: how many tensors, their bytes, and whether this build reads them." }),
  chat_template: z.boolean(),
  template_probe: templateProbeSchema.nullable().meta({
    description: "Null without a template, or when the tokenizer cannot be read.",
  }),
  trainable: z.boolean().meta({ description: "Whether this build can train it." }),
  not_trainable_reason: z.string().nullable(),
  lora_targets: z.array(z.enum(LORA_TARGETS)).meta({
    description: "All targets of the model; empty when it cannot be trained.",
  }),
  lora_parameters_per_rank: z.int().gte(0).meta({
    description: "Parameters of an adapter on the requested targets, for each unit of its rank.",
  }),
  problems: z.array(z.string()),
}).meta({ id: "Preflight" });

const preflight = route({
  method: "POST",
  path: "/v1/preflight",
  operation: "preflight_model",
  summary: "What a model supports: LoRA targets, template, tool format.",
  body: {
    limit: "max_body_bytes",
    content: {
      [JSON_TYPE]: z.strictObject({
        model: z.string().min(1).meta({ description: "Path of a GGUF file in path_roots." }),
        targets: z.union([z.literal("all"), z.array(z.enum(LORA_TARGETS)).min(1)]).default("all").meta({
          description: "The LoRA targets whose parameters to count.",
        }),
      }).meta({ id: "PreflightRequest" }),
    },
  },
  answers: { 200: { description: "The facts of the model.", content: { [JSON_TYPE]: preflightSchema } } },
  problems: {
    "forbidden-path": ["forbidden_path"],
    "invalid-request": ["path_not_found", "unsupported_format"],
    "device-busy": [],
  },
  async handler({ body: { value: { model, targets } }, request: { signal }, services: { config, jobs } }) {
    const pointer = "/model";
    const file = await clientFile(model, { roots: config.path_roots, pointer });
    const named = { pointer, named: model, file };
    const [description] = await jobOn(jobs.run("describe_models", { files: [file] }, signal), named);
    if (description!.kind === null) {
      throw modelProblem(errorFromRecord(description!.error), named);
    }
    if (description!.kind === "adapter") {
      const reason = `Cannot use ${model} as a model: it is an adapter`;
      throw modelProblem(new ServiceError("format_invalid", reason), named);
    }
    const { inspection, rank_parameters } = description!;
    const { gguf_version: _version, not_trainable, ...facts } = inspection;
    const chosen = new Set(targets === "all" ? LORA_TARGETS : targets);
    const parameters = [...chosen].map((target) => rank_parameters[target] ?? 0);
    const asShown = (text: string) => text.replaceAll(file.path, model);
    return json(200, {
      model,
      ...facts,
      trainable: not_trainable === null,
      not_trainable_reason: not_trainable && asShown(not_trainable),
      lora_parameters_per_rank: parameters.reduce((sum, each) => sum + each, 0),
      problems: facts.problems.map(asShown),
    });
  },
});

export const MODEL_FILE_ROUTES: readonly Route[] = [listModelFiles, preflight];
