/** Which of several answers about the same thing is the newest: one may overtake another. */

/** Answers by what they are about. */
export class Newest {
  #asked = 0;
  readonly #taken = new Map<string, number>();

  /** A request begins. @returns Its number. */
  ask(): number {
    return ++this.#asked;
  }

  /** Whether the answer to a request is to be taken: nothing that was asked for later is there yet. */
  takes(what: string, request: number): boolean {
    if (request < (this.#taken.get(what) ?? 0)) return false;
    this.#taken.set(what, request);
    return true;
  }
}
