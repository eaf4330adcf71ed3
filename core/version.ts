/** The program's version, as in `svc --version` and the API. */
export const VERSION = "0.1.0";
