/** Chat templates: Jinja that turns messages into the text a model was trained on. */

import { Environment, Interpreter, parse, tokenize } from "@huggingface/jinja";
import { ServiceError } from "../../core/errors.ts";
import type { GgufFile } from "../formats/gguf.ts";
import type { TemplateMessage, ToolDefinition } from "./messages.ts";

/** Most evaluations of expressions and statements in one render: what a loop without end runs into. */
export const MAX_TEMPLATE_STEPS = 1_000_000;
/** Most characters of one render. */
export const MAX_RENDER_CHARS = 1 << 25;

type Statement = Parameters<Interpreter["evaluate"]>[0];
type Program = ReturnType<typeof parse>;

/** What a template is rendered with. */
export interface TemplateInput {
  messages: readonly TemplateMessage[];
  tools: readonly ToolDefinition[];
  add_generation_prompt: boolean;
  /** Such as `enable_thinking`. */
  variables: Readonly<Record<string, unknown>>;
}

export interface ChatTemplateOptions {
  /** Text of the tokens that the template may name. */
  bos_token: string;
  eos_token: string;
  /** What `strftime_now` tells; by default the system's time. */
  now?: () => Date;
}

export class ChatTemplate {
  readonly #program: Program;
  readonly #options: ChatTemplateOptions;

  /** @throws {ServiceError} `template_failed` when the source is not a template. */
  constructor(readonly source: string, options: ChatTemplateOptions) {
    this.#options = options;
    this.#program = guarded(
      "parse",
      () => parse(tokenize(source, { lstrip_blocks: true, trim_blocks: true })),
    );
  }

  /**
   * The chat template of a model.
   *
   * @param override A template that takes the place of the file's, from `[model].chat_template`.
   * @throws {ServiceError} `template_failed` when there is none.
   */
  static fromGguf(file: GgufFile, override?: string): ChatTemplate {
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
      bos_token: textOf("tokenizer.ggml.bos_token_id"),
      eos_token: textOf("tokenizer.ggml.eos_token_id"),
    });
  }

  /**
   * Renders messages.
   *
   * @throws {ServiceError} `template_failed` with the template's own message, or when it goes beyond a limit.
   */
  render({ messages, tools, add_generation_prompt, variables }: TemplateInput): string {
    const { bos_token, eos_token, now = () => new Date() } = this.#options;
    return guarded("render", () => {
      const environment = new Environment(), steps = new StepCounter();
      const names: Record<string, unknown> = {
        ...CONSTANTS,
        raise_exception: (message: unknown) => {
          throw new Error(String(message));
        },
        range: (...bounds: number[]) => steps.range(bounds),
        strftime_now: (format: string) => strftime(now(), format),
        ...{ messages, tools: tools.length > 0 ? tools : null, add_generation_prompt, bos_token, eos_token },
      };
      for (const name of Object.keys(variables)) {
        if (Object.hasOwn(names, name)) {
          throw new Error(`the variable ${name} cannot be set: it has a meaning already`);
        }
      }
      for (const [name, value] of Object.entries({ ...names, ...variables })) environment.set(name, value);
      const { value } = new BoundedInterpreter(environment, steps).run(this.#program);
      const text = String(value);
      if (text.length > MAX_RENDER_CHARS) {
        throw new Error(`the text is longer than ${MAX_RENDER_CHARS} characters`);
      }
      return text;
    });
  }
}

/** Counts what a template does, and stops it. */
class StepCounter {
  #left = MAX_TEMPLATE_STEPS;

  spend(steps: number): void {
    this.#left -= steps;
    if (this.#left < 0) {
      throw new Error(`it takes more than ${MAX_TEMPLATE_STEPS} steps: does a loop not end?`);
    }
  }

  /** Python's `range`; every item is a step. */
  range(bounds: number[]): number[] {
    const [start, stop, step] = bounds.length === 1
      ? [0, bounds[0]!, 1]
      : [bounds[0]!, bounds[1]!, bounds[2] ?? 1];
    if (![start, stop, step].every(Number.isSafeInteger)) throw new Error("range() takes whole numbers");
    if (step === 0) throw new Error("range() step must not be zero");
    const length = Math.max(0, Math.ceil((stop - start) / step));
    this.spend(length);
    return Array.from({ length }, (_, i) => start + i * step);
  }
}

/** Jinja's constants, and Python's spelling of them. */
const CONSTANTS = { true: true, false: false, none: null, True: true, False: false, None: null };

const NOTHING = { type: "StringLiteral", value: "" };

class BoundedInterpreter extends Interpreter {
  readonly #steps: StepCounter;

  constructor(environment: Environment, steps: StepCounter) {
    super(environment);
    this.#steps = steps;
  }

  override evaluate(statement: Statement, environment: Environment): ReturnType<Interpreter["evaluate"]> {
    this.#steps.spend(1);
    if (statement?.type === "For" && "body" in statement) {
      // An empty body would evaluate nothing, so its rounds would not be counted.
      const body = statement.body as unknown[];
      if (body.length === 0) body.push(NOTHING);
    }
    return super.evaluate(statement, environment);
  }
}

/** Turns whatever a template throws into the one error that callers expect. */
function guarded<T>(verb: "parse" | "render", run: () => T): T {
  try {
    return run();
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new ServiceError("template_failed", `Cannot ${verb} the chat template: ${reason}`, {}, {
      cause: error,
    });
  }
}

const MONTHS = "January February March April May June July August September October November December".split(
  " ",
);

/** The fields of Python's `strftime` that chat templates use, in UTC. */
function strftime(date: Date, format: string): string {
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
