/** The argument that makes the program's entry a process that serves a model. */
export const SERVING_COMMAND = "serving-process";
