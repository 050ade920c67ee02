/** Searches in the grammar of the API, for links to the list of jobs. */

/** A value as the grammar reads it: in quotes where it has spaces, commas, colons or a star. */
export function searchValue(value: string): string {
  return /^[\w.@/-]+$/.test(value) && !value.startsWith("-")
    ? value
    : `"${value.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;
}

/** The address of the list of jobs that a search finds. */
export function jobsHref(search: string): string {
  return `/jobs?q=${encodeURIComponent(search)}`;
}

export const jobHref = (id: string): string => `/jobs/${encodeURIComponent(id)}`;
export const laneHref = (name: string): string => `/lanes/${encodeURIComponent(name)}`;
export const scheduleHref = (name: string): string => `/schedules/${encodeURIComponent(name)}`;
export const workflowHref = (id: string): string => `/workflows/${encodeURIComponent(id)}`;
