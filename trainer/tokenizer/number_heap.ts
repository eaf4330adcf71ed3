/** A priority queue of numbers. */

/** A binary heap with the smallest number on top. */
export class NumberHeap {
  readonly #items: number[] = [];

  push(item: number): void {
    const items = this.#items;
    let at = items.length;
    items.push(item);
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (items[parent]! <= item) break;
      items[at] = items[parent]!;
      at = parent;
    }
    items[at] = item;
  }

  /** Removes and returns the smallest number; undefined when there is none. */
  pop(): number | undefined {
    const items = this.#items, top = items[0], last = items.pop();
    if (items.length === 0 || last === undefined) return top;
    let at = 0;
    while (true) {
      let child = 2 * at + 1;
      if (child >= items.length) break;
      if (child + 1 < items.length && items[child + 1]! < items[child]!) child++;
      if (items[child]! >= last) break;
      items[at] = items[child]!;
      at = child;
    }
    items[at] = last;
    return top;
  }
}
