/** Takes the machine's paths out of answers, for `redact_error_paths`. */

import type { ProblemDocument } from "./problems.ts";

/** The fields of answers that hold prose. Other fields are data, such as the configuration that a client sent. */
const PROSE = ["message", "detail", "hint", "advice", "reason", "problems"];

/** The fields of events that hold prose or the path of a file. */
const EVENT_TEXTS = [...PROSE, "path", "adapter"];

/** What may stand at the end of a path in a sentence, and belongs to the sentence. */
const END = `.,;:)\\]}>`;

/**
 * An absolute path and its last part. A quotation mark ends it before a space or a punctuation mark; a space does not,
 * when the word after it has a slash.
 */
const WORD = `(?:[^\\s"'\`]|["'\`](?![\\s${END}]|$))`;
const PATH = new RegExp(`(?<![\\w./~<>-])(?:file://)?/(?!/)${WORD}+(?: +[^\\s/"'\`]+/${WORD}*)*`, "g");

/** Stands for a space in a known path: no text has this character of the private use area. */
const JOINT = "\ue000";

const ROUTE = /^\/v1(\/|$)/;

/** The longest list of a client's paths that is kept for the answer, and the deepest place of one. */
const MAX_PATHS = 1000, MAX_DEPTH = 64;

/** The absolute paths among the texts of a request. A path with spaces cannot be told from prose otherwise. */
export function pathsIn(value: unknown): string[] {
  const found: string[] = [], waiting = [{ value, depth: 0 }];
  while (waiting.length > 0 && found.length < MAX_PATHS) {
    const { value, depth } = waiting.pop()!;
    if (typeof value === "string" && value.startsWith("/")) found.push(value);
    else if (typeof value === "object" && value !== null && depth < MAX_DEPTH) {
      for (const inner of Object.values(value)) waiting.push({ value: inner, depth: depth + 1 });
    }
  }
  return found;
}

/** Shortens paths to `<path>/` and their last part. */
export class Redactor {
  /** The longest first, so that a folder does not hide what is in it. */
  readonly #known: readonly string[];

  /** @param known Paths that may have spaces: of the server's folders, and of the request. */
  constructor(known: readonly string[]) {
    this.#known = [...new Set(known)].filter((path) => path.includes(" ")).sort((a, b) =>
      b.length - a.length
    );
  }

  /** @param kept Texts that look like paths and are none, such as pointers. */
  text(text: string, kept: readonly string[] = []): string {
    const joined = this.#known.reduce(
      (all, path) => all.replaceAll(path, path.replaceAll(" ", JOINT)),
      text,
    );
    const short = joined.replace(PATH, (found) => {
      const path = found.replace(new RegExp(`[${END}]+$`), "");
      if (kept.includes(path) || ROUTE.test(path)) return found;
      const last = path.split("/").findLast((part) => part !== "") ?? "";
      return `<path>/${last}${found.slice(path.length)}`;
    });
    return short.replaceAll(JOINT, " ");
  }

  /** A problem document: its prose, and all texts of its `meta`. */
  problem(document: ProblemDocument): ProblemDocument {
    const kept = document.errors.map(({ pointer }) => pointer);
    const { detail, errors, meta, error } = document;
    return {
      ...document,
      ...(error ? { error: { ...error, message: this.text(error.message, kept) } } : {}),
      detail: this.text(detail, kept),
      errors: errors.map(({ message, hint, ...entry }) => ({
        ...entry,
        message: this.text(message, kept),
        ...(hint === undefined ? {} : { hint: this.text(hint, kept) }),
      })),
      meta: this.#fields(meta, null) as ProblemDocument["meta"],
    };
  }

  /** The prose in an answer of JSON. */
  json(value: unknown): unknown {
    return this.#fields(value, PROSE);
  }

  /** The events of a stream, of which every piece has entire ones. */
  events(): TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>> {
    const decoder = new TextDecoder(), encoder = new TextEncoder();
    return new TransformStream({
      transform: (piece, controller) => {
        const text = decoder.decode(piece).replace(
          /^data: (.*)$/gm,
          // OpenAI's streams end with a line that is no JSON.
          (line, data) =>
            data === "[DONE]" ? line : `data: ${JSON.stringify(this.#fields(JSON.parse(data), EVENT_TEXTS))}`,
        );
        controller.enqueue(encoder.encode(text));
      },
    });
  }

  /** A copy in which the texts of some fields are shortened; null: those of all fields. */
  #fields(value: unknown, names: readonly string[] | null, is_prose = names === null): unknown {
    if (typeof value === "string") return is_prose ? this.text(value) : value;
    if (Array.isArray(value)) return value.map((inner) => this.#fields(inner, names, is_prose));
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(
      Object.entries(value).map(([name, inner]) => [
        name,
        this.#fields(inner, names, names === null || names.includes(name)),
      ]),
    );
  }
}
