import type { Job } from "../../api/client";

/** An error as the API gives it: of an attempt, or several that a partial success collected. */
export interface ErrorFacts {
  type: string | null;
  message: string | null;
  /** Why the job or attempt ended with it, such as "attempts exhausted". */
  reason: string | null;
  traceback: string | null;
  /** Errors that a job collected and went on. */
  collected: string[];
}

const textOf = (value: unknown): string | null => (typeof value === "string" && value !== "" ? value : null);

export function errorFacts(error: Job["errors"] | undefined): ErrorFacts | null {
  if (!error || Object.keys(error).length === 0) return null;
  const collected = Array.isArray(error.errors) ? (error.errors as unknown[]) : [];
  return {
    type: textOf(error.type),
    message: textOf(error.message),
    reason: textOf(error.reason),
    traceback: textOf(error.traceback),
    collected: collected.map((each) => (typeof each === "string" ? each : JSON.stringify(each))),
  };
}

/** One line for a table: class and message, else the first collected error, else the reason. */
export function errorLine(error: Job["errors"] | undefined): string | null {
  const facts = errorFacts(error);
  if (!facts) return null;
  const named = [facts.type, facts.message].filter(Boolean).join(": ");
  if (named) return named;
  return facts.collected[0] ?? facts.reason;
}
