/**
 * Answers for a server with `redact_error_paths`. The schema of an answer says which of its texts are prose
 * ({@link TextKind}). Texts of other origin than this program are unchanged.
 */

import { z } from "zod";
import { isJsonObject } from "../../core/json.ts";
import { describeKeys } from "../../config/describe.ts";
import type { TextKind } from "../../config/text/text_kinds.ts";
import type { Redactor } from "./redact.ts";

/** Shows a value of a schema. */
type Show = (value: unknown, redactor: Redactor) => unknown;

const showProse: Show = (value, redactor) => redactor.deep(value);

let path_keys: ReadonlySet<string> | null = null;

/** Whether a key of the run configuration holds a path. */
function isPathKey(key: string): boolean {
  path_keys ??= new Set(describeKeys().filter(({ path }) => path !== undefined).map(({ key }) => key));
  return path_keys.has(key);
}

function showConfig(value: unknown, redactor: Redactor, key = ""): unknown {
  if (typeof value === "string") return isPathKey(key) ? redactor.path(value) : value;
  if (Array.isArray(value)) return value.map((inner) => showConfig(inner, redactor, `${key}[]`));
  if (!isJsonObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [
      name,
      showConfig(inner, redactor, key === "" ? name : `${key}.${name}`),
    ]),
  );
}

function showConfigKey(entry: unknown, redactor: Redactor): unknown {
  const { key, values, ...rest } = entry as { key: string; values: unknown[] };
  return { key, values: values.map((value) => showConfig(value, redactor, key)), ...rest };
}

/** How each kind of text is shown; null: unchanged. */
const KINDS: Readonly<Record<TextKind, Show | null>> = {
  data: null,
  printed: (value, redactor) => redactor.deep(value, "printed"),
  config: (value, redactor) => showConfig(value, redactor),
  config_key: showConfigKey,
};

const known = new WeakMap<z.ZodType, Show | null>();

/** How values of a schema are shown; null: unchanged. */
function showOf(schema: z.ZodType): Show | null {
  if (!known.has(schema)) {
    // A schema that contains itself finds this entry and does not recurse for ever.
    known.set(schema, showProse);
    known.set(schema, newShowOf(schema));
  }
  return known.get(schema)!;
}

function newShowOf(schema: z.ZodType): Show | null {
  const { texts } = (schema.meta() ?? {}) as { texts?: TextKind };
  if (texts) return KINDS[texts];
  if (schema instanceof z.ZodObject) return showFields(schema);
  if (schema instanceof z.ZodUnion) return showForms(schema.options as z.ZodType[]);
  if (schema instanceof z.ZodArray) return showEach(schema.element as z.ZodType);
  if (schema instanceof z.ZodRecord) return showValues(schema.valueType as z.ZodType);
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodNullable) {
    const show = showOf(schema.unwrap() as z.ZodType);
    return show && ((value, redactor) => value === null ? null : show(value, redactor));
  }
  const has_no_prose = [z.ZodNumber, z.ZodBoolean, z.ZodEnum, z.ZodLiteral, z.ZodNull, z.ZodNever];
  return has_no_prose.some((kind) => schema instanceof kind) ? null : showProse;
}

function showFields({ shape }: z.ZodObject): Show {
  const fields = new Map(Object.entries(shape).map(([name, field]) => [name, showOf(field as z.ZodType)]));
  return (value, redactor) => {
    if (!isJsonObject(value)) return showProse(value, redactor);
    return Object.fromEntries(
      Object.entries(value).map(([name, inner]) => {
        const show = fields.has(name) ? fields.get(name)! : showProse;
        return [name, show ? show(inner, redactor) : inner];
      }),
    );
  };
}

function showForms(forms: readonly z.ZodType[]): Show | null {
  const shows = forms.map(showOf);
  if (shows.every((show) => show === null)) return null;
  return (value, redactor) => {
    const at = forms.findIndex((form) => form.safeParse(value).success);
    const show = at < 0 ? showProse : shows[at]!;
    return show ? show(value, redactor) : value;
  };
}

function showEach(element: z.ZodType): Show | null {
  const show = showOf(element);
  return show &&
    ((value, redactor) =>
      Array.isArray(value) ? value.map((inner) => show(inner, redactor)) : showProse(value, redactor));
}

function showValues(of: z.ZodType): Show | null {
  const show = showOf(of);
  return show && ((value, redactor) => {
    if (!isJsonObject(value)) return showProse(value, redactor);
    return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, show(inner, redactor)]));
  });
}

/** A value of a schema, with its prose and its paths shortened. */
export function shown(value: unknown, schema: z.ZodType, redactor: Redactor): unknown {
  const show = showOf(schema);
  return show ? show(value, redactor) : value;
}

/** A line of JSON; any other line is prose. */
export function shownLine(line: string, schema: z.ZodType, redactor: Redactor): string {
  if (!line.includes("/")) return line;
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    return redactor.text(line);
  }
  return JSON.stringify(shown(value, schema, redactor));
}

/** The name of an event, if it has one, and its data. Without the class, `.` would not match Unicode's line separators. */
const EVENT_DATA = /^(event: ([^\n]*)\n)?data: ([^\n]*)/gm;

/**
 * A stream of server-sent events. Each piece has complete events.
 *
 * @param schemas The schemas of the data, by the event's name. The data of other events is prose.
 */
export function shownEvents(
  schemas: Readonly<Record<string, z.ZodType>>,
  redactor: Redactor,
): TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>> {
  const decoder = new TextDecoder(), encoder = new TextEncoder();
  return new TransformStream({
    transform(piece, controller) {
      const text = decoder.decode(piece).replace(EVENT_DATA, (...[, line = "", name = "message", data]) => {
        const schema = Object.hasOwn(schemas, name) ? schemas[name]! : z.unknown();
        return `${line}data: ${shownLine(data, schema, redactor)}`;
      });
      controller.enqueue(encoder.encode(text));
    },
  });
}
