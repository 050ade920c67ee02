const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Seconds between two marks of an axis of durations, as a clock divides them: 1 m 40 s is no round length. */
export const DURATION_STEPS: readonly number[] = [
  ...[0.001, 0.01, 0.1].flatMap((unit) => [unit, 2 * unit, 5 * unit]),
  ...[1, MINUTE].flatMap((unit) => [1, 2, 5, 10, 15, 30].map((count) => count * unit)),
  ...[1, 2, 3, 6, 12].map((count) => count * HOUR),
  ...[1, 2, 5, 10, 20, 50, 100].map((count) => count * DAY),
];

/** Round moments of a stretch that begins with 0, at most `most` of them. Seconds. */
export function durationMarks(length: number, most: number): number[] {
  const step = DURATION_STEPS.find((each) => length / each < most) ?? length;
  return Array.from({ length: Math.floor(length / step) + 1 }, (_, index) => index * step);
}
