/** The parts of a model file that a run needs besides the weights: header facts, tokenizer and chat template. */

import { RenderedChat } from "../../agent/rollout/rendered_chat.ts";
import type { RunConfig } from "../../config/schema.ts";
import { ServiceError } from "../../core/errors.ts";
import { openRegularFile } from "../../core/regular_file.ts";
import { reasonOf } from "../../core/system_errors.ts";
import { type GgufFile, openGguf, type openGgufHeader } from "../../trainer/formats/gguf.ts";
import { ChatTemplate } from "../../trainer/tokenizer/chat_template.ts";
import { Renderer } from "../../trainer/tokenizer/renderer.ts";
import { probeTemplate, type TemplateProbe } from "../../trainer/tokenizer/template_probe.ts";
import { readTokenizer } from "../../trainer/tokenizer/read_tokenizer.ts";

export interface ModelParts {
  context_length: number;
  vocabulary: number;
  renderer: Renderer;
  probe: TemplateProbe;
  /** For the template. */
  variables: Readonly<Record<string, unknown>>;
}

/** The keys of `[model]` that name files. */
type ModelFiles = Pick<RunConfig["model"], "path" | "chat_template">;

/**
 * Reads the header of the model file once.
 *
 * @param variables For the template. @param open Opens the model file.
 * @throws {ServiceError} `format_invalid`, `template_failed`.
 */
export async function loadModelParts(
  model: ModelFiles,
  variables: ModelParts["variables"],
  open: typeof openGgufHeader = openGguf,
): Promise<ModelParts> {
  const override = await readTemplate(model.chat_template);
  const file = await open(model.path);
  try {
    const tokenizer = readTokenizer(file);
    const template_file = templateFile(model);
    const template = withTemplateNamed(
      template_file,
      "render messages",
      () => ChatTemplate.fromGguf(file, override, template_file),
    );
    const renderer = new Renderer(tokenizer, template);
    const probe = probeTemplate(renderer, variables);
    return { ...headerFacts(file), renderer, probe, variables };
  } finally {
    file.close();
  }
}

/** The file of a model's chat template. */
export function templateFile({ path, chat_template }: ModelFiles): string {
  return chat_template ?? path;
}

/** The key that names {@link templateFile}. */
export function templateKey({ chat_template }: ModelFiles): "model.path" | "model.chat_template" {
  return chat_template === undefined ? "model.path" : "model.chat_template";
}

/** Runs code that uses the template; its failure names the file. @throws {ServiceError} `template_failed`. */
export function withTemplateNamed<T>(file: string, doing: string, run: () => T): T {
  try {
    return run();
  } catch (error) {
    if (!(error instanceof ServiceError) || error.code !== "template_failed") throw error;
    const reason = error.message.replace(/^Cannot [^:]*: /, "");
    const message = `Cannot ${doing} with the chat template of ${file}: ${reason}`;
    throw new ServiceError("template_failed", message, { ...error.details, path: file }, { cause: error });
  }
}

/** The text of `[model] chat_template`. @throws {ServiceError} `template_failed`: empty, or not UTF-8. */
async function readTemplate(path: string | undefined): Promise<string | undefined> {
  if (path === undefined) return undefined;
  const refuse = (reason: string) =>
    new ServiceError("template_failed", `Cannot use the chat template ${path}: ${reason}`, { path });
  let text: string;
  try {
    using file = await openRegularFile(path);
    text = new TextDecoder("utf-8", { fatal: true }).decode(await file.readAll());
  } catch (error) {
    if (error instanceof TypeError) throw refuse("it is not UTF-8");
    throw refuse(reasonOf(error).replace(`Cannot read ${path}: `, ""));
  }
  if (text.trim() === "") throw refuse("the file is empty; leave the key out to take the model's own");
  return text;
}

function headerFacts(file: GgufFile): { context_length: number; vocabulary: number } {
  const architecture = file.getString("general.architecture");
  return {
    context_length: file.getUint(`${architecture}.context_length`),
    vocabulary: file.getStrings("tokenizer.ggml.tokens").length,
  };
}

export function chatOf({ renderer, probe, variables }: ModelParts): RenderedChat {
  return new RenderedChat({ renderer, probe, variables });
}
