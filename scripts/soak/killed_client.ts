/** A client of a run whose server is killed: it remembers what it was told, and says what is missing afterwards. */

import { Rng, rngKey } from "../../core/random.ts";
import { type ShownEvent, shownEvents } from "../../tests/shown_events.ts";
import { sleep } from "./part.ts";

export const POLL_MS = 50;
const COMMAND_MS = 300;
/** One of so many commands pauses the run: each pause costs it a start. */
const PAUSE_EVERY = 25;
/** Codes of a server that cannot do it now: no slot, or too late. */
const BUSY = [503, 504];

export interface Sent {
  command: string;
  /** False when it was refused, or had no answer before the server died. */
  is_accepted: boolean;
}

/** What a client was told so far. */
export interface Told {
  names: number;
  commands: number;
  datasets: number;
  events: number;
}

/** The most commands on each side of a departure that are told. */
const TOLD_COMMANDS = 10;

/**
 * Where a log departs from having every accepted command once and in order, and besides only others that were sent: the
 * commands around that place; null when it does not.
 */
export function departureOf(sent: readonly Sent[], logged: readonly string[]): string | null {
  let matched = new Set([0]);
  for (const [i, { command, is_accepted }] of sent.entries()) {
    const logged_too = [...matched].filter((at) => logged[at] === command).map((at) => at + 1);
    const next = new Set(is_accepted ? logged_too : [...matched, ...logged_too]);
    if (next.size === 0) return departureText(sent, logged, { sent: i, logged: Math.max(...matched) });
    matched = next;
  }
  if (matched.has(logged.length)) return null;
  return departureText(sent, logged, { sent: sent.length, logged: Math.max(...matched) });
}

function departureText(
  sent: readonly Sent[],
  logged: readonly string[],
  at: { sent: number; logged: number },
): string {
  const around = <T>(all: readonly T[], place: number) =>
    all.slice(Math.max(0, place - TOLD_COMMANDS), place + TOLD_COMMANDS);
  const texts = around(sent, at.sent).map(({ command, is_accepted }) =>
    `${command}${is_accepted ? "" : "?"}`
  );
  return `command ${at.sent} of ${texts.join(", ")}: the log has ${around(logged, at.logged).join(", ")}`;
}

export async function api(url: string, init?: RequestInit): Promise<Record<string, unknown>> {
  const response = await fetch(url, init), body = await response.json();
  if (response.ok) return body;
  throw new Error(`${init?.method ?? "GET"} ${url}: ${response.status} ${JSON.stringify(body)}`);
}

/** A body with its media type. */
export const sending = (method: string, body: unknown, type = "application/json"): RequestInit => ({
  ...{ method, headers: { "content-type": type } },
  body: typeof body === "string" ? body : JSON.stringify(body),
});

/** Follows a run, renames it, uploads datasets and sends commands that leave the run's bytes as they are. */
export class KilledClient {
  readonly #path: string;
  /** The run's own rate: setting it changes nothing. */
  readonly #lr: number;
  readonly #random: Rng;
  readonly #events = new Map<number, string>();
  readonly #sent: Sent[] = [];
  /** Those of the server that was killed last. */
  readonly #datasets: string[] = [];
  #uploaded = 0;
  #named = 0;
  #last_name = 0;
  /** Answers that no server may give. */
  readonly wrong: string[] = [];

  constructor(path: string, { lr, seed }: { lr: number; seed: number }) {
    this.#path = path;
    this.#lr = lr;
    this.#random = new Rng(rngKey(seed, "client"));
  }

  get told(): Told {
    const commands = this.#sent.filter(({ is_accepted }) => is_accepted).length;
    return { names: this.#named, commands, datasets: this.#uploaded, events: this.#events.size };
  }

  /** Works until the server is gone. */
  async work(url: string): Promise<void> {
    await Promise.allSettled([this.#follow(url), this.#write(url), this.#command(url)]);
  }

  /** Lets an interrupted or paused run go on. */
  async resume(url: string): Promise<void> {
    if (!await this.#send(url, "resume")) throw new Error("The run does not resume");
  }

  async #follow(url: string): Promise<void> {
    const since = Math.max(0, ...this.#events.keys());
    for await (const event of shownEvents(`${url}${this.#path}/events`, since)) {
      this.#events.set(event.id, textOf(event));
    }
  }

  async #write(url: string): Promise<void> {
    for (let n = 0;; n++) {
      await api(url + this.#path, sending("PATCH", { name: `name ${++this.#last_name}` }));
      this.#named = this.#last_name;
      if (n % 10 === 0) {
        const row = `{"text":"${this.#path} ${this.#last_name}"}\n`;
        const { id } = await api(`${url}/v1/datasets`, sending("POST", row, "application/x-ndjson"));
        this.#datasets.push(id as string);
        this.#uploaded++;
      }
      await sleep(POLL_MS);
    }
  }

  async #command(url: string): Promise<void> {
    while (true) {
      await sleep(COMMAND_MS);
      const { state } = await api(url + this.#path), kind = this.#random.below(3);
      if (this.#random.below(PAUSE_EVERY) === 0) {
        if (!await this.#send(url, "pause")) continue;
        while (!await this.#send(url, "resume")) await sleep(POLL_MS);
      } else if (kind === 0) await this.#send(url, "checkpoint");
      else if (kind === 1) await this.#send(url, `set_lr ${this.#lr}`);
      else if (state === "running") await this.#send(url, `generate ${this.#sent.length}`);
    }
  }

  /** @returns Whether the command was accepted. @throws When the server is gone. */
  async #send(url: string, command: string): Promise<boolean> {
    const [name, argument] = command.split(" "), sent = { command, is_accepted: false };
    this.#sent.push(sent);
    const run = url + this.#path, messages = [{ role: "user", content: "Once" }];
    const generation = { messages, max_new_tokens: 2, temperature: 1, top_p: 1, seed: Number(argument) };
    const response =
      await (name === "set_lr"
        ? fetch(run, sending("PATCH", { training: { lr: Number(argument) } }))
        : name === "generate"
        ? fetch(`${run}/generate`, sending("POST", generation))
        : fetch(`${run}/${name === "checkpoint" ? "checkpoints" : name}`, { method: "POST" }));
    const text = await response.text(), { status, ok } = response;
    if (status >= 500 && !BUSY.includes(status)) this.wrong.push(`${command}: ${status} ${text}`);
    // A run that has ended meanwhile is asked in a process of its own, which logs nothing.
    sent.is_accepted = ok && (name !== "generate" || (await api(run)).state === "running");
    return ok;
  }

  /** What the server acknowledged before it was killed and does not have now. */
  async missing(url: string): Promise<string[]> {
    const missing: string[] = [];
    const { name } = await api(url + this.#path), number = Number(/\d+/.exec(name as string)?.[0] ?? 0);
    // The name in flight may have arrived.
    if (number < this.#named || number > this.#last_name) missing.push(`name ${this.#named}: ${name}`);
    for (const id of this.#datasets.splice(0)) {
      const { status, body } = await fetch(`${url}/v1/datasets/${id}`, { method: "DELETE" });
      await body?.cancel();
      if (status !== 204) missing.push(`dataset ${id}: ${status}`);
    }
    const log = await (await fetch(`${url}${this.#path}/artifacts/events`)).text();
    const logged = log.split("\n").filter((line) => line !== "").map((line) => JSON.parse(line))
      .filter(({ kind }) => kind === "command")
      .map(({ command, arguments: { seed, lr } }) => [command, seed ?? lr ?? []].flat().join(" "));
    const departure = departureOf(this.#sent, logged);
    if (departure !== null) missing.push(departure);
    return missing;
  }

  /** Events that were shown and that the log of the ended run does not have as they were. */
  async missingEvents(url: string): Promise<string[]> {
    const logged = new Map<number, string>();
    for await (const event of shownEvents(`${url}${this.#path}/events`, 0)) {
      logged.set(event.id, textOf(event));
    }
    return [...this.#events].filter(([id, text]) => logged.get(id) !== text)
      .map(([id, text]) => `event ${id} ${text}: the log has ${logged.get(id)}`);
  }
}

const textOf = ({ kind, data }: ShownEvent) => JSON.stringify([kind, data]);
