/** Work of commands that are no run: Ctrl-C gives it up, and its progress is a status line. */

import { ServiceError } from "../core/errors.ts";
import { ActivityFeed } from "../runs/record/activity.ts";
import type { CliContext } from "./context.ts";
import { EXIT } from "./exit_codes.ts";
import { ProgressPrinter, TICK_MS } from "./progress.ts";
import { noticeText, printNotice } from "./terminal.ts";

/**
 * Does work whose signal the first Ctrl-C aborts; the second ends the process.
 *
 * @param message Of the error that an interrupted command ends with.
 */
export async function interruptible<T>(
  message: string,
  context: Pick<CliContext, "onInterrupt" | "exit">,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const giving_up = new AbortController(), { signal } = giving_up;
  const release = context.onInterrupt(() => {
    if (signal.aborted) return context.exit(EXIT.interrupted);
    giving_up.abort(new ServiceError("cancelled", message));
  });
  try {
    return await work(signal);
  } catch (error) {
    // After an abort, whatever was running fails with its own message.
    throw signal.aborted ? signal.reason : error;
  } finally {
    release();
  }
}

/**
 * Does work whose activity is a status line until it is done, where `is_shown`.
 *
 * @param work Gets also what prints a notice on standard error, above the status line.
 */
export async function withStatusLine<T>(
  is_shown: boolean,
  context: Pick<CliContext, "terminal" | "clock">,
  work: (activity: ActivityFeed, tell: (notice: string) => void) => Promise<T>,
): Promise<T> {
  const activity = new ActivityFeed(), { terminal, clock } = context;
  const printer = is_shown ? new ProgressPrinter(terminal, clock) : null;
  const followed = printer ? follow(activity, printer) : Promise.resolve();
  try {
    return await work(activity, (notice) => {
      if (printer) printer.note(noticeText(notice));
      else printNotice(terminal, notice);
    });
  } finally {
    activity.close();
    await followed;
  }
}

/** Passes on the messages of a world as they come; resolves when it is closed. */
export async function passMessages(
  messages: AsyncIterable<string>,
  tell: (message: string) => void,
): Promise<void> {
  for await (const message of messages) tell(message);
}

async function follow(activity: ActivityFeed, printer: ProgressPrinter): Promise<void> {
  const timer = setInterval(() => printer.tick(), TICK_MS);
  try {
    for await (const item of activity) printer.show(item);
  } finally {
    clearInterval(timer);
    printer.close();
  }
}
