/** Splits a turn's text into thinking, content and tool calls while it arrives. */

import { parseToolCalls } from "../../trainer/tokenizer/tool_call_parser.ts";
import type { ChatCall } from "./chat_request.ts";

const THINK = "<think>", THINK_END = "</think>", CALL = "<tool_call>", CALL_END = "</tool_call>";

export interface TurnTextOptions {
  /** Texts that end the turn. */
  stop: readonly string[];
  /** Whether tool calls are separated from content. */
  has_calls: boolean;
  /** Whether thinking is separated from content. */
  has_thinking: boolean;
  /** Whether the prompt ends inside the thinking. */
  is_thinking: boolean;
  /** Whether the turn ends after its first call. */
  one_call: boolean;
  /** The id of a call by its position. */
  callId: (index: number) => string;
}

/** Parts of a turn that later text cannot change. */
export interface TurnPieces {
  reasoning: string;
  content: string;
  calls: ChatCall[];
}

/** The longest end of a text that a marker could begin with. */
function heldBack(text: string, markers: readonly string[]): number {
  const longest = Math.max(0, ...markers.map((marker) => marker.length - 1));
  for (let length = Math.min(longest, text.length); length > 0; length--) {
    const end = text.slice(text.length - length);
    if (markers.some((marker) => marker.startsWith(end))) return length;
  }
  return 0;
}

/** A text without whitespace at both ends. */
class TrimmedText {
  #has_begun = false;
  #space = "";

  /** Returns the text that is certain: whitespace waits for what follows it. */
  push(text: string): string {
    const all = this.#space + (this.#has_begun ? text : text.trimStart());
    const certain = all.trimEnd();
    this.#space = all.slice(certain.length);
    if (certain !== "") this.#has_begun = true;
    return certain;
  }
}

/**
 * The text of one turn. Calls have the form of `parseToolCalls`, but a call that cannot be parsed is content, and does
 * not change the others: text that was emitted is never taken back.
 */
export class TurnText {
  readonly #options: TurnTextOptions;
  readonly #content = new TrimmedText();
  readonly #reasoning = new TrimmedText();
  #part: "start" | "thinking" | "content" | "call";
  /** Text that may be the beginning of a stop text. */
  #unstopped = "";
  /** Text that may be the beginning of a marker, or an open call. */
  #rest = "";
  #calls = 0;
  #is_over = false;

  constructor(options: TurnTextOptions) {
    this.#options = options;
    const { has_thinking, is_thinking } = options;
    this.#part = has_thinking ? is_thinking ? "thinking" : "start" : "content";
  }

  /** Whether a stop text or a first call ended the turn. */
  get is_over(): boolean {
    return this.#is_over;
  }

  get calls(): number {
    return this.#calls;
  }

  /** Adds sampled text. Text after the end of the turn is left out. */
  push(text: string): TurnPieces {
    const pieces: TurnPieces = { reasoning: "", content: "", calls: [] };
    if (this.#is_over) return pieces;
    const { stop } = this.#options, all = this.#unstopped + text;
    const found = stop.map((marker) => all.indexOf(marker)).filter((at) => at >= 0);
    if (found.length > 0) {
      this.#split(all.slice(0, Math.min(...found)), pieces);
      this.#end(pieces);
      return pieces;
    }
    const held = heldBack(all, stop);
    this.#unstopped = all.slice(all.length - held);
    this.#split(all.slice(0, all.length - held), pieces);
    return pieces;
  }

  /** The rest of the text, when no more is sampled. */
  end(): TurnPieces {
    const pieces: TurnPieces = { reasoning: "", content: "", calls: [] };
    if (this.#is_over) return pieces;
    this.#split(this.#unstopped, pieces);
    this.#end(pieces);
    return pieces;
  }

  #end(pieces: TurnPieces): void {
    if (this.#is_over) return;
    this.#is_over = true;
    // A call without an end is text, with the marker that opened it.
    const rest = this.#part === "call" ? CALL + this.#rest : this.#rest;
    if (this.#part === "thinking") pieces.reasoning += this.#reasoning.push(rest);
    else pieces.content += this.#content.push(rest);
  }

  #split(text: string, pieces: TurnPieces): void {
    this.#rest += text;
    while (!this.#is_over && this.#step(pieces));
  }

  /** Goes on to the next marker. Returns false when more text is needed. */
  #step(pieces: TurnPieces): boolean {
    switch (this.#part) {
      case "start":
        return this.#begin();
      case "thinking":
        return this.#upTo(THINK_END, {
          take: (text) => pieces.reasoning += this.#reasoning.push(text),
          next: "content",
        });
      case "content":
        return this.#options.has_calls
          ? this.#upTo(CALL, { take: (text) => pieces.content += this.#content.push(text), next: "call" })
          : this.#upTo(null, { take: (text) => pieces.content += this.#content.push(text), next: "content" });
      case "call":
        return this.#call(pieces);
    }
  }

  /** A turn thinks if its text begins with the marker. */
  #begin(): boolean {
    const text = this.#rest.trimStart();
    if (text.startsWith(THINK)) {
      this.#part = "thinking";
      this.#rest = text.slice(THINK.length);
      return true;
    }
    if (THINK.startsWith(text)) return false;
    this.#part = "content";
    return true;
  }

  #upTo(
    marker: string | null,
    { take, next }: { take: (text: string) => void; next: "content" | "call" },
  ): boolean {
    const rest = this.#rest, at = marker === null ? -1 : rest.indexOf(marker);
    if (at >= 0) {
      take(rest.slice(0, at));
      this.#rest = rest.slice(at + marker!.length);
      this.#part = next;
      return true;
    }
    const end = rest.length - heldBack(rest, marker === null ? [] : [marker]);
    take(rest.slice(0, end));
    this.#rest = rest.slice(end);
    return false;
  }

  #call(pieces: TurnPieces): boolean {
    const at = this.#rest.indexOf(CALL_END);
    if (at < 0) return false;
    const all = CALL + this.#rest.slice(0, at) + CALL_END, start = all.lastIndexOf(CALL);
    this.#rest = this.#rest.slice(at + CALL_END.length);
    this.#part = "content";
    const { calls: [call] } = parseToolCalls(all.slice(start));
    pieces.content += this.#content.push(call ? all.slice(0, start) : all);
    if (!call) return true;
    const id = this.#options.callId(this.#calls++);
    pieces.calls.push({ id, name: call.name, arguments: JSON.stringify(call.arguments) });
    if (this.#options.one_call) this.#is_over = true;
    return true;
  }
}
