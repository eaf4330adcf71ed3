/** The slots in which runs train, by run. */

export class Slots {
  readonly #count: number;
  readonly #taken = new Map<string, PromiseWithResolvers<void>>();

  constructor(count: number) {
    this.#count = count;
  }

  get has_free(): boolean {
    return this.#taken.size < this.#count;
  }

  has(run: string): boolean {
    return this.#taken.has(run);
  }

  /** Gives a run a slot, even above the count: a process that another server left takes its place all the same. */
  take(run: string): void {
    this.#taken.set(run, Promise.withResolvers());
  }

  /** @returns Whether the run had a slot. */
  free(run: string): boolean {
    const taken = this.#taken.get(run);
    this.#taken.delete(run);
    taken?.resolve();
    return taken !== undefined;
  }

  /** Resolves when a run has no slot. */
  async freed(run: string): Promise<void> {
    await this.#taken.get(run)?.promise;
  }

  /** Resolves when the slots that are taken now are free. */
  async allFree(): Promise<void> {
    await Promise.all([...this.#taken.values()].map(({ promise }) => promise));
  }
}
