import type { components } from "./schema.gen";

export type Problem = components["schemas"]["Problem"];
export type ProblemCode = Problem["code"];

/** A refusal of the API (RFC 9457). `problem` is null when the answer came from a proxy or was no problem document. */
export class ApiProblem extends Error {
  readonly status: number;
  readonly problem: Problem | null;

  constructor(status: number, problem: Problem | null) {
    super(problem?.detail ?? `The server answered with status ${status}.`);
    this.name = "ApiProblem";
    this.status = status;
    this.problem = problem;
  }

  get code(): ProblemCode | null {
    return this.problem?.code ?? null;
  }

  /** The permission that the caller lacks; null when the refusal has another reason. */
  get permission(): string | null {
    return this.problem?.permission ?? null;
  }
}

/** The server could not be reached: the network, or a server that is not running. */
export class Unreachable extends Error {
  constructor(cause: unknown) {
    super("The server cannot be reached.", { cause });
    this.name = "Unreachable";
  }
}

export function problemOf(body: unknown): Problem | null {
  if (typeof body !== "object" || body === null) return null;
  return "code" in body && "detail" in body ? (body as Problem) : null;
}

/** True for refusals that a second try cannot change: those of the caller's own making. */
export function isFinal(error: unknown): boolean {
  return error instanceof ApiProblem && error.status >= 400 && error.status < 500 && error.status !== 429;
}
