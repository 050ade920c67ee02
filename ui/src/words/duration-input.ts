/** Seconds as the API reads a duration and a person writes one: 5s, 2m, 1h, 1.5s; null is empty. */
export function durationInput(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined) return "";
  for (const [unit, length] of [
    ["d", 86_400],
    ["h", 3600],
    ["m", 60],
  ] as const) {
    if (seconds >= length && seconds % length === 0) return `${seconds / length}${unit}`;
  }
  return seconds < 1 ? `${Math.round(seconds * 1000)}ms` : `${seconds}s`;
}
