/** A tool host whose parts wait or fail on request. */

import type { ToolCall, ToolFunction } from "../../core/chat.ts";
import type { CallAnswer, ToolHostFactory } from "./tool_host.ts";

export interface FakeToolHostOptions {
  name?: string;
  /** Default: one tool, `time`. */
  tools?: ToolFunction[];
  /** Runs before the tools are listed; it may hang or throw. */
  list?: () => Promise<void> | void;
  /** Runs before an attempt's host opens; it may hang or throw. */
  open?: () => Promise<void> | void;
  /** Runs when an attempt's host closes; it may throw. */
  close?: () => void;
  /** Default: the result `noon`. */
  call?: (call: ToolCall) => CallAnswer;
}

export interface FakeToolHost extends ToolHostFactory {
  /** How often each happened; `left` counts the end of what attempts share. */
  readonly count: { listed: number; opened: number; closed: number; left: number };
}

/** A tool without parameters. */
export function fakeTool(name: string): ToolFunction {
  return { name, description: name, parameters: { type: "object", properties: {} } };
}

/** A host beside an environment. */
export function fakeToolHost(options: FakeToolHostOptions = {}): FakeToolHost {
  const { name = "the host clock", tools = [fakeTool("time")] } = options;
  const count = { listed: 0, opened: 0, closed: 0, left: 0 };
  const noon = (): CallAnswer => ({ result: "noon", reward: null, done: false });
  return {
    name,
    count,
    async list() {
      count.listed++;
      await options.list?.();
      return tools;
    },
    async open() {
      await options.open?.();
      count.opened++;
      return {
        call: (call) => Promise.resolve((options.call ?? noon)(call)),
        close() {
          count.closed++;
          return Promise.try(() => options.close?.());
        },
      };
    },
    close() {
      count.left++;
      return Promise.resolve();
    },
  };
}
