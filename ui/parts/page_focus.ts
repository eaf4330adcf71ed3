/** What a change of the page tells: the title of its tab, and the focus on its heading. */

import { useEffect, useRef } from "preact/hooks";

/** Gives the tab a title for as long as the component is there; null leaves it as it is. */
export function useTitle(title: string | null): void {
  useEffect(() => {
    if (title === null) return;
    const before = document.title;
    document.title = title;
    return () => document.title = before;
  }, [title]);
}

/** Focuses the heading of the page as soon as there is one, unless a person moved the focus meanwhile. */
function focusHeading(main: HTMLElement): () => void {
  const before = document.activeElement;
  const focus = () => {
    const heading = main.querySelector<HTMLElement>("h1"), { activeElement } = document;
    if (!heading) return;
    observer.disconnect();
    if (activeElement !== before && activeElement !== document.body) return;
    heading.tabIndex = -1;
    heading.focus();
  };
  const observer = new MutationObserver(focus);
  observer.observe(main, { childList: true, subtree: true });
  focus();
  return () => observer.disconnect();
}

/**
 * Leads those who do not see the page to its heading when another page is shown, and when the focus was lost with what
 * had it. The first page is left as the browser shows it.
 *
 * @param page What tells pages apart. @param view What tells apart what they show.
 */
export function usePageFocus(page: string, view: string): void {
  const shown = useRef<string | null>(null);
  useEffect(() => {
    const before = shown.current, main = document.getElementById("main");
    // Without a main part there is the login, or nothing yet.
    if (!main) return;
    shown.current = page;
    if (before === null) return;
    if (before !== page || document.activeElement === document.body) return focusHeading(main);
  }, [page, view]);
}
