/** Whether an element is in view, or near. */

import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

/** How far beyond the window an element counts as in view. */
const BEFORE_VIEW = "200px";

/** A reference for an element, and whether that is in view now. */
export function useInView<T extends Element>(): { ref: RefObject<T | null>; is_in_view: boolean } {
  const ref = useRef<T>(null), [is_in_view, setInView] = useState(false);
  useEffect(() => {
    const observer = new IntersectionObserver(
      (entries) => setInView(entries.at(-1)!.isIntersecting),
      { rootMargin: BEFORE_VIEW },
    );
    observer.observe(ref.current!);
    return () => observer.disconnect();
  }, []);
  return { ref, is_in_view };
}
