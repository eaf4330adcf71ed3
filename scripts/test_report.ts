/** Counts tests from the JUnit file of `deno test`. */

/** A test, a check or a process that failed. */
export interface Failure {
  name: string;
  /** What it said, with the place; empty when that was printed only where it happened. */
  message: string;
}

/** Test counts. A step counts as a test. */
export interface TestCounts {
  passed: number;
  failed: Failure[];
  /** Names of the tests that were skipped. */
  skipped: string[];
}

const ENTITIES: Readonly<Record<string, string>> = {
  "&lt;": "<",
  "&gt;": ">",
  "&quot;": '"',
  "&apos;": "'",
  "&amp;": "&",
};

/** Reads the test cases of a JUnit document as Deno writes it. */
export function countTests(junit: string): TestCounts {
  const counts: TestCounts = { passed: 0, failed: [], skipped: [] };
  for (const [, name, body] of junit.matchAll(/<testcase name="([^"]*)"[^>]*>([\s\S]*?)<\/testcase>/g)) {
    const failure = /^\s*<(?:failure|error)\b[^>]*>([^<]*)/.exec(body!);
    if (/^\s*<skipped\b/.test(body!)) counts.skipped.push(unescaped(name!));
    else if (failure) counts.failed.push({ name: unescaped(name!), message: unescaped(failure[1]!) });
    else counts.passed++;
  }
  return counts;
}

function unescaped(text: string): string {
  return text.replaceAll(/&(lt|gt|quot|apos|amp);/g, (entity) => ENTITIES[entity]!);
}

/** Lines of a failure's message in the report at the end; the others are printed where the test ran. */
const MAX_MESSAGE_LINES = 30;

/** All failures with the beginnings of their messages, so that the end of a log is enough to see what failed. */
export function failureReport(failures: readonly Failure[]): string {
  return failures.map(({ name, message }) => {
    const lines = message.trimEnd().split("\n").filter((line) => line.trim());
    const shown = lines.slice(0, MAX_MESSAGE_LINES);
    if (lines.length > shown.length) shown.push(`(${lines.length - shown.length} more lines)`);
    return [`FAILED ${name}`, ...shown.map((line) => `    ${line}`)].join("\n");
  }).join("\n\n");
}

/** Skipped tests without a reason at the end of their name, "name (skipped: reason)". */
export function withoutReason(skipped: readonly string[]): string[] {
  return skipped.filter((name) => !/\(skipped: [^()]+\)$/.test(name));
}

export function addCounts(a: TestCounts, b: TestCounts): TestCounts {
  return {
    passed: a.passed + b.passed,
    failed: [...a.failed, ...b.failed],
    skipped: [...a.skipped, ...b.skipped],
  };
}

/** "N passed, N failed, N skipped" */
export function summaryLine(counts: TestCounts): string {
  return `${counts.passed} passed, ${counts.failed.length} failed, ${counts.skipped.length} skipped`;
}
