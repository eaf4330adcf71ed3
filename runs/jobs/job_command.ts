/** The argument that makes the program's entry a process of jobs. */
export const JOB_COMMAND = "job-process";
