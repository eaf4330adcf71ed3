/** Ends a process that used the device. */

/** The library with C's `_exit`. Windows ends other threads before it runs exit handlers. */
const LIBRARIES: Partial<Record<typeof Deno.build.os, string>> = {
  linux: "libc.so.6",
  darwin: "/usr/lib/libSystem.B.dylib",
};

/**
 * Ends the process at once with an exit status and without running exit handlers.
 *
 * `Deno.exit` is C's `exit`: it calls the exit handlers of all libraries, including the graphics driver's, on the
 * calling thread, while the device's thread may still compile, compute or unload the driver. That sometimes ends in a
 * segmentation fault (docs/experiments/exits.md). This program does not need exit handlers: files are written through,
 * and standard output is not buffered. Without the permission `ffi` this is `Deno.exit`.
 */
export function endProcess(code: number): never {
  const library = LIBRARIES[Deno.build.os];
  if (library !== undefined && Deno.permissions.querySync({ name: "ffi" }).state === "granted") {
    try {
      const { symbols } = Deno.dlopen(library, { _exit: { parameters: ["i32"], result: "void" } });
      symbols._exit(code);
    } catch {
      // The C library has another name on this system.
    }
  }
  Deno.exit(code);
}
