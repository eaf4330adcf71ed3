/** Something that is asked for again and again. */

import { useEffect, useState } from "preact/hooks";

/** Counts while `is_on` and the page is seen: one more after each `ms`. */
export function useTicks(ms: number, is_on: boolean): number {
  const [count, setCount] = useState(0);
  useEffect(() => {
    if (!is_on) return;
    const timer = setInterval(() => document.hidden || setCount((before) => before + 1), ms);
    return () => clearInterval(timer);
  }, [ms, is_on]);
  return count;
}
