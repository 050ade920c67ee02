import createClient from "openapi-fetch";
import { ApiProblem, problemOf, Unreachable } from "./problem";
import { prefix, root } from "./root";
import type { components, paths } from "./schema.gen";

export type Schema = components["schemas"];
export type Job = Schema["JobAnswer"];
export type State = Schema["State"];
export type Count = Schema["CountAnswer"];

/** Milliseconds that the last answered request took; polling waits a multiple of it. */
export const latency = { last: 0 };

async function timedFetch(request: Request): Promise<Response> {
  const began = performance.now();
  try {
    const response = await fetch(request);
    latency.last = performance.now() - began;
    return response;
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Unreachable(error);
  }
}

export const client = createClient<paths>({
  baseUrl: root.origin + prefix,
  credentials: "same-origin",
  fetch: timedFetch,
});

interface Answer<Data> {
  data?: Data;
  error?: unknown;
  response: Response;
}

/** The body of an answer; a refusal is thrown as ApiProblem. */
export async function bodyOf<Data>(answer: Promise<Answer<Data>>): Promise<Data> {
  const { data, error, response } = await answer;
  if (!response.ok) throw new ApiProblem(response.status, problemOf(error));
  return data as Data;
}

/** A body with the version that `If-Match` expects. */
export interface Versioned<Data> {
  data: Data;
  etag: string;
}

/** The body and its ETag, for a later change with `If-Match`. */
export async function versionedBodyOf<Data>(answer: Promise<Answer<Data>>): Promise<Versioned<Data>> {
  const { data, error, response } = await answer;
  if (!response.ok) throw new ApiProblem(response.status, problemOf(error));
  return { data: data as Data, etag: response.headers.get("ETag") ?? "*" };
}
