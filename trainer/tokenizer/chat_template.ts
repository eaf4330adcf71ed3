/** Chat templates: Jinja that converts messages to the text format of a model's training. */

import { Environment, parse, tokenize } from "@huggingface/jinja";
import type { Message, ToolDefinition } from "../../core/chat.ts";
import { ServiceError } from "../../core/errors.ts";
import type { GgufFile } from "../formats/gguf.ts";
import { BoundedInterpreter, type CheckedProgram, checkProgram } from "./bounded_interpreter.ts";
import { checkSource, TemplateBudget, TemplateLimitError, tooDeep } from "./template_limits.ts";

/** The input of a template. */
export interface TemplateInput {
  messages: readonly Message[];
  tools: readonly ToolDefinition[];
  add_generation_prompt: boolean;
  /** Such as `enable_thinking`. */
  variables: Readonly<Record<string, unknown>>;
}

export interface ChatTemplateOptions {
  /** The text of tokens that the template may use. */
  bos_token: string;
  eos_token: string;
  /** The template's file, for messages. */
  path?: string;
  /** The time for `strftime_now`; by default the system's. */
  now?: () => Date;
}

/**
 * A compiled chat template: the Jinja source of a model file or of `model.chat_template`, with limits on time and size.
 */
export class ChatTemplate {
  readonly #program: CheckedProgram;
  readonly #options: ChatTemplateOptions;

  /** @throws {ServiceError} `template_failed` when the source is not a template. */
  constructor(readonly source: string, options: ChatTemplateOptions) {
    this.#options = options;
    this.#program = this.#guarded("parse", () => {
      checkSource(source);
      return checkProgram(parse(tokenize(source, { lstrip_blocks: true, trim_blocks: true })));
    });
  }

  /**
   * The chat template of a model.
   *
   * @param override A template from `[model].chat_template` that replaces the file's, and its file.
   * @throws {ServiceError} `template_failed` when there is none.
   */
  static fromGguf(file: GgufFile, override?: string, path = file.path): ChatTemplate {
    const tokens = file.getStrings("tokenizer.ggml.tokens");
    const textOf = (key: string) => {
      return file.metadata.has(key) ? tokens[file.getUint(key)] ?? "" : "";
    };
    const source = override ?? file.getString("tokenizer.chat_template", "");
    if (source === "") {
      const message =
        `Cannot render messages: ${file.path} has no chat template; name a file in [model].chat_template`;
      throw new ServiceError("template_failed", message, { path: file.path });
    }
    return new ChatTemplate(source, {
      path,
      bos_token: textOf("tokenizer.ggml.bos_token_id"),
      eos_token: textOf("tokenizer.ggml.eos_token_id"),
    });
  }

  /**
   * Renders messages.
   *
   * @throws {ServiceError} `template_failed` with the template's own message, or with the limit that it exceeds
   * (`template_limits.ts`), which is also in `details.limit`.
   */
  render({ messages, tools, add_generation_prompt, variables }: TemplateInput): string {
    const { bos_token, eos_token, now = () => new Date() } = this.#options;
    return this.#guarded("render", () => {
      const environment = new Environment(), budget = new TemplateBudget();
      const names: Record<string, unknown> = {
        ...CONSTANTS,
        raise_exception: (message: unknown) => {
          throw new Error(typeof message === "object" ? "it raises an exception" : String(message));
        },
        range: (...bounds: number[]) => range(bounds, budget),
        strftime_now: (format: unknown) => strftime(now(), format, budget),
        ...{ messages, tools: tools.length > 0 ? tools : null, add_generation_prompt, bos_token, eos_token },
      };
      for (const name of Object.keys(variables)) {
        if (Object.hasOwn(names, name)) {
          throw new Error(`the variable ${name} cannot be set: it has a meaning already`);
        }
      }
      for (const [name, value] of Object.entries({ ...names, ...variables })) environment.set(name, value);
      return String(
        new BoundedInterpreter(environment, this.#program, budget).run(this.#program.program).value,
      );
    });
  }

  /** Converts any error of a template to the error that callers expect. */
  #guarded<T>(verb: "parse" | "render", run: () => T): T {
    try {
      return run();
    } catch (caught) {
      const error = isStackOverflow(caught) ? tooDeep() : caught;
      const { path } = this.#options, of = path === undefined ? "" : ` of ${path}`;
      const reason = error instanceof Error ? error.message : String(error);
      const details = error instanceof TemplateLimitError ? { limit: error.limit } : {};
      const message = `Cannot ${verb} the chat template${of}: ${reason}`;
      throw new ServiceError("template_failed", message, details, { cause: error });
    }
  }
}

/** Python's `range`; every item is a step. */
function range(bounds: number[], budget: TemplateBudget): number[] {
  const [start, stop, step] = bounds.length === 1
    ? [0, bounds[0]!, 1]
    : [bounds[0]!, bounds[1]!, bounds[2] ?? 1];
  if (![start, stop, step].every(Number.isSafeInteger)) throw new Error("range() takes whole numbers");
  if (step === 0) throw new Error("range() step must not be zero");
  const length = Math.max(0, Math.ceil((stop - start) / step));
  budget.spend(length);
  return Array.from({ length }, (_, i) => start + i * step);
}

/** Jinja's constants, and Python's spelling of them. */
const CONSTANTS = { true: true, false: false, none: null, True: true, False: false, None: null };

const MONTHS = "January February March April May June July August September October November December".split(
  " ",
);

/** The fields of Python's `strftime` that chat templates use, in UTC. */
function strftime(date: Date, format: unknown, budget: TemplateBudget): string {
  if (typeof format !== "string") throw new Error("strftime_now() takes a text");
  budget.spendChars(format.length);
  const two = (value: number) => String(value).padStart(2, "0");
  const month = MONTHS[date.getUTCMonth()]!;
  const fields: Record<string, string> = {
    "%Y": String(date.getUTCFullYear()),
    "%m": two(date.getUTCMonth() + 1),
    "%d": two(date.getUTCDate()),
    "%b": month.slice(0, 3),
    "%B": month,
    "%H": two(date.getUTCHours()),
    "%M": two(date.getUTCMinutes()),
    "%S": two(date.getUTCSeconds()),
    "%%": "%",
  };
  return format.replace(/%./g, (field) => fields[field] ?? field);
}

/** The library parses by recursion, which ends far beyond the limit of the depth. */
function isStackOverflow(error: unknown): boolean {
  return error instanceof RangeError && /call stack/.test(error.message);
}
