/** The version of the program, as `svc --version` and the API tell it. */
export const VERSION = "0.1.0";
