/** Counts tests from the JUnit file of `deno test`. */

/** Test counts. A step counts as a test. */
export interface TestCounts {
  passed: number;
  failed: number;
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
  const counts: TestCounts = { passed: 0, failed: 0, skipped: [] };
  for (const [, name, body] of junit.matchAll(/<testcase name="([^"]*)"[^>]*>([\s\S]*?)<\/testcase>/g)) {
    if (/^\s*<skipped\b/.test(body!)) {
      counts.skipped.push(name!.replaceAll(/&(lt|gt|quot|apos|amp);/g, (entity) => ENTITIES[entity]!));
    } else if (/^\s*<(failure|error)\b/.test(body!)) counts.failed++;
    else counts.passed++;
  }
  return counts;
}

/** Skipped tests without a reason at the end of their name, "name (skipped: reason)". */
export function withoutReason(skipped: readonly string[]): string[] {
  return skipped.filter((name) => !/\(skipped: [^()]+\)$/.test(name));
}

export function addCounts(a: TestCounts, b: TestCounts): TestCounts {
  return {
    passed: a.passed + b.passed,
    failed: a.failed + b.failed,
    skipped: [...a.skipped, ...b.skipped],
  };
}

/** "N passed, N failed, N skipped" */
export function summaryLine(counts: TestCounts): string {
  return `${counts.passed} passed, ${counts.failed} failed, ${counts.skipped.length} skipped`;
}
