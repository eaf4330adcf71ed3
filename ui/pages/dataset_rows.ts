/** A row of a dataset as people read it: its fields in their order, conversations as such. */

import type { JsonValue } from "../../api/types.ts";
import type { MessageCall, MessageProps } from "../parts/message.tsx";

/** A field of a row. */
export type RowField =
  | { name: string; messages: MessageProps[] }
  | { name: string; text: string }
  /** Anything else, as JSON. */
  | { name: string; json: string };

type Fields = Readonly<Record<string, JsonValue>>;

function isObject(value: JsonValue): value is Fields {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

function textOf(value: JsonValue): string {
  return value === null || value === undefined
    ? ""
    : typeof value === "string"
    ? value
    : JSON.stringify(value, null, 1);
}

function callOf(call: JsonValue): MessageCall {
  const given = isObject(call) && isObject(call.function) ? call.function : isObject(call) ? call : {};
  const args = given.arguments;
  return {
    name: textOf(given.name),
    arguments: isObject(args)
      ? Object.entries(args).map(([name, value]): [string, string] => [name, textOf(value)])
      : textOf(args),
  };
}

function isMessage(value: JsonValue): value is Fields {
  return isObject(value) && typeof value.role === "string";
}

function messageOf({ role, content, reasoning_content, tool_calls }: Fields): MessageProps {
  return {
    role: textOf(role),
    thinking: textOf(reasoning_content),
    text: textOf(content),
    calls: Array.isArray(tool_calls) ? tool_calls.map(callOf) : [],
  };
}

/** The fields of a row. */
export function fieldsOf(row: Fields): RowField[] {
  return Object.entries(row).map(([name, value]) => {
    const is_conversation = Array.isArray(value) && value.length > 0 && value.every(isMessage);
    if (is_conversation) return { name, messages: (value as Fields[]).map(messageOf) };
    return typeof value === "string" ? { name, text: value } : { name, json: JSON.stringify(value, null, 2) };
  });
}
