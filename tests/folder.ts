/** Runs a test with a temporary folder, by its real path, and removes it with its contents. */
export async function withFolder(body: (folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.realPath(await Deno.makeTempDir());
  try {
    await body(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}
