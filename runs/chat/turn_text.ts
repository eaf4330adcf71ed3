/** Splits a turn's text into thinking, content and tool calls while it arrives. */

import type { ToolCallFormatName } from "../../core/chat.ts";
import { THINK_CLOSE, THINK_OPEN } from "../../trainer/tokenizer/thinking.ts";
import type { CallSyntax } from "../../trainer/tokenizer/tool_call_format.ts";
import { callSyntax } from "../../trainer/tokenizer/tool_calls/registry.ts";
import type { ChatCall } from "./chat_request.ts";

export interface TurnTextOptions {
  /** How calls are written. */
  format: ToolCallFormatName;
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
 * The text of one turn. Calls are those of `parseToolCalls`, but a call that cannot be parsed is content, and does not
 * change the others: text that was emitted is never taken back.
 */
export class TurnText {
  readonly #options: TurnTextOptions;
  readonly #syntax: CallSyntax;
  readonly #content = new TrimmedText();
  readonly #reasoning = new TrimmedText();
  /** `opening`: after the thinking, and before any content. */
  #part: "start" | "thinking" | "opening" | "content" | "call";
  /** Text that may be the beginning of a stop text. */
  #unstopped = "";
  /** Text that may be the beginning of a marker, or an open call after its marker. */
  #rest = "";
  /** The marker of the open call. */
  #marker = "";
  #calls = 0;
  #ended_by: TurnText["ended_by"] = null;

  constructor(options: TurnTextOptions) {
    this.#options = options;
    this.#syntax = callSyntax(options.format);
    const { has_thinking, is_thinking } = options;
    this.#part = has_thinking ? is_thinking ? "thinking" : "start" : "opening";
  }

  /** Whether the turn ended: by a stop text, by its first call, or because no more is sampled. */
  get is_over(): boolean {
    return this.#ended_by !== null;
  }

  /** The reason why the turn ended: a stop text, its first call, or the end of sampling; null before that. */
  get ended_by(): "text" | "call" | "end" | null {
    return this.#ended_by;
  }

  get calls(): number {
    return this.#calls;
  }

  /** Adds sampled text. Text after the end of the turn is left out. */
  push(text: string): TurnPieces {
    const pieces: TurnPieces = { reasoning: "", content: "", calls: [] };
    if (this.is_over) return pieces;
    const { stop } = this.#options, all = this.#unstopped + text;
    const found = stop.map((marker) => all.indexOf(marker)).filter((at) => at >= 0);
    if (found.length > 0) {
      this.#split(all.slice(0, Math.min(...found)), pieces);
      this.#end("text", pieces);
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
    if (this.is_over) return pieces;
    this.#split(this.#unstopped, pieces);
    this.#end("end", pieces);
    return pieces;
  }

  #end(by: TurnText["ended_by"], pieces: TurnPieces): void {
    if (this.is_over) return;
    this.#ended_by = by;
    const rest = this.#rest;
    if (this.#part === "thinking") pieces.reasoning += this.#reasoning.push(rest);
    else if (this.#part !== "call") pieces.content += this.#content.push(rest);
    else if (this.#syntax.end === null) this.#take(this.#marker + rest, 0, pieces);
    // A call without its end is text, with the marker that opened it.
    else pieces.content += this.#content.push(this.#marker + rest);
  }

  #split(text: string, pieces: TurnPieces): void {
    this.#rest += text;
    while (!this.is_over && this.#step(pieces));
  }

  /** Goes on to the next marker. Returns false when more text is needed. */
  #step(pieces: TurnPieces): boolean {
    switch (this.#part) {
      case "start":
        return this.#begin();
      case "thinking":
        return this.#upTo([THINK_CLOSE], {
          take: (text) => pieces.reasoning += this.#reasoning.push(text),
          next: "opening",
        });
      case "opening":
        return this.#open();
      case "content":
        return this.#upTo(this.#may("anywhere") ? this.#syntax.begins : [], {
          take: (text) => pieces.content += this.#content.push(text),
          next: "call",
        });
      case "call":
        return this.#call(pieces);
    }
  }

  /** A turn thinks if its text begins with the marker. */
  #begin(): boolean {
    const text = this.#rest.trimStart();
    if (text.startsWith(THINK_OPEN)) {
      this.#part = "thinking";
      this.#rest = text.slice(THINK_OPEN.length);
      return true;
    }
    if (THINK_OPEN.startsWith(text)) return false;
    this.#part = "opening";
    return true;
  }

  #may(place: CallSyntax["place"]): boolean {
    return this.#options.has_calls && this.#syntax.place === place;
  }

  /** A turn whose call may only begin it is a call if its content begins with a marker. */
  #open(): boolean {
    const text = this.#rest.trimStart(), { begins } = this.#syntax;
    const marker = this.#may("start") ? begins.find((begin) => text.startsWith(begin)) : undefined;
    if (marker !== undefined) {
      this.#marker = marker;
      this.#rest = text.slice(marker.length);
      this.#part = "call";
      return true;
    }
    if (this.#may("start") && begins.some((begin) => begin.startsWith(text))) return false;
    this.#part = "content";
    return true;
  }

  #upTo(
    markers: readonly string[],
    { take, next }: { take: (text: string) => void; next: "opening" | "call" },
  ): boolean {
    const rest = this.#rest;
    const [first] = markers.map((marker) => ({ marker, at: rest.indexOf(marker) }))
      .filter(({ at }) => at >= 0).sort((a, b) => a.at - b.at);
    if (first) {
      take(rest.slice(0, first.at));
      this.#marker = first.marker;
      this.#rest = rest.slice(first.at + first.marker.length);
      this.#part = next;
      return true;
    }
    const end = rest.length - heldBack(rest, markers);
    take(rest.slice(0, end));
    this.#rest = rest.slice(end);
    return false;
  }

  #call(pieces: TurnPieces): boolean {
    const { begins, end } = this.#syntax, at = end === null ? -1 : this.#rest.indexOf(end);
    if (at < 0) return false;
    const all = this.#marker + this.#rest.slice(0, at) + end;
    this.#rest = this.#rest.slice(at + end!.length);
    this.#part = "content";
    this.#take(all, Math.max(...begins.map((begin) => all.lastIndexOf(begin))), pieces);
    return true;
  }

  /** A call with its markers and text before it. What cannot be parsed is content. */
  #take(all: string, start: number, pieces: TurnPieces): void {
    const { calls } = this.#syntax.parse(all.slice(start));
    pieces.content += this.#content.push(calls.length > 0 ? all.slice(0, start) : all);
    for (const { name, arguments: args } of calls) {
      pieces.calls.push({ id: this.#options.callId(this.#calls++), name, arguments: JSON.stringify(args) });
      if (!this.#options.one_call) continue;
      this.#ended_by ??= "call";
      break;
    }
  }
}
