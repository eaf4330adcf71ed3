/** The argument with which the program's entry runs as a process for jobs. */
export const JOB_COMMAND = "job-process";
