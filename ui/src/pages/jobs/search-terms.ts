import type { State } from "../../api/client";

/** In the order of a job's life. */
export const STATES: readonly State[] = [
  "pending",
  "blocked",
  "queued",
  "running",
  "completed",
  "completed_with_errors",
  "failed",
  "cancelled",
  "expired",
];

const isState = (text: string): text is State => (STATES as readonly string[]).includes(text);

/** The terms of a search. Spaces inside quotes do not part them. */
export function termsOf(search: string): string[] {
  return search.match(/(?:"(?:\\.|[^"\\])*"?|[^\s"])+/g) ?? [];
}

/** The one state that a search names; null: none or several. */
export function stateOf(search: string): State | null {
  const found = termsOf(search).filter((term) => /^-?state:/.test(term));
  const value = found.length === 1 ? found[0]?.slice("state:".length) : undefined;
  return value !== undefined && isState(value) ? value : null;
}

/** The search for this state instead of the states that it names; null: for all. */
export function withState(search: string, state: State | null): string {
  const others = termsOf(search).filter((term) => !/^-?state:/.test(term));
  return [...(state ? [`state:${state}`] : []), ...others].join(" ");
}

export function withoutTerm(search: string, term: string): string {
  const terms = termsOf(search);
  const at = terms.indexOf(term);
  return terms.filter((_, index) => index !== at).join(" ");
}

/** What may stand in place of a part of the search. */
export interface Replacement {
  start: number;
  end: number;
  text: string;
}

/** The search with a part replaced, and where the caret goes. A field waits for its value; a value is followed by a blank. */
export function replaced(search: string, { start, end, text }: Replacement): { search: string; caret: number } {
  const whole = /[:.]$/.test(text) ? text : `${text} `;
  const rest = search.slice(end).replace(/^ /, "");
  return { search: search.slice(0, start) + whole + rest, caret: start + whole.length };
}

/** A value as a search writes it: in quotes where it has blanks, commas, colons or quotes. */
export function quoted(value: string): string {
  return /^[^\s",:*()-][^\s",:*]*$/.test(value) ? value : `"${value.replace(/["\\]/g, "\\$&")}"`;
}

/** What the feed says of a job, as far as a search can be judged by it. */
export interface Judged {
  state: State;
  kind: string;
  lane: string | null;
}

/** False when the job surely does not match. Terms that the feed does not answer count as matched. */
export function mayMatch(search: string, job: Judged): boolean {
  return termsOf(search).every((term) => {
    const negated = term.startsWith("-");
    const [, field, values] = /^-?(state|kind|lane):(.+)$/.exec(term) ?? [];
    if (!field || !values) return true;
    const actual = field === "state" ? job.state : field === "kind" ? job.kind : job.lane;
    if (actual === null) return true;
    const fits = values.split(",").some((value) => {
      const text = value.replace(/^"|"$/g, "");
      return text.endsWith("*") ? actual.startsWith(text.slice(0, -1)) : actual === text;
    });
    return fits !== negated;
  });
}
