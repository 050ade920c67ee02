import type { Schedule, ScheduleChange } from "../../api/schedules";
import { words } from "../../words";
import { durationInput } from "../../words/duration-input";

export type Window = Schedule["windows"][number];

/** What stands in the fields of the form. */
export interface ScheduleForm {
  kind: string;
  cron: string;
  every: string;
  tz: string;
  args: string;
  options: string;
  missed: Schedule["missed"];
  most_missed: string;
  overlap: Schedule["overlap"];
  windows: readonly Window[];
}

export type ScheduleField = keyof ScheduleForm;

export const NEW_WINDOW: Window = { hours: "22:00-06:00", days: "", then: "skip" };
/** As many as the API takes. */
export const MOST_WINDOWS = 20;

export const NEW_SCHEDULE: ScheduleForm = {
  kind: "",
  cron: "",
  every: "",
  tz: "UTC",
  args: "{}",
  options: "{}",
  missed: "latest",
  most_missed: "100",
  overlap: "queue",
  windows: [],
};

const jsonText = (value: object): string => JSON.stringify(value, null, 2);

export function formOf(schedule: Schedule): ScheduleForm {
  return {
    kind: schedule.kind,
    cron: schedule.cron ?? "",
    every: durationInput(schedule.every),
    tz: schedule.tz,
    args: jsonText(schedule.args),
    options: jsonText(Object.fromEntries(Object.entries(schedule.options).filter(([, value]) => value !== null))),
    missed: schedule.missed,
    most_missed: String(schedule.most_missed),
    overlap: schedule.overlap,
    windows: schedule.windows,
  };
}

/** The typed JSON object; null when it is none. */
export function objectOf(typed: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(typed || "{}");
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : null;
  } catch {
    return null;
  }
}

export function errorsOf(form: ScheduleForm): Partial<Record<ScheduleField, string>> {
  const { notJson, notCount } = words.schedules;
  return {
    ...(objectOf(form.args) === null && { args: notJson }),
    ...(objectOf(form.options) === null && { options: notJson }),
    ...(!/^[1-9]\d{0,4}$/.test(form.most_missed.trim()) && { most_missed: notCount }),
  };
}

export function bodyOfForm(form: ScheduleForm) {
  return {
    kind: form.kind.trim(),
    cron: form.cron.trim() || null,
    every: form.every.trim() || null,
    tz: form.tz.trim(),
    args: objectOf(form.args) ?? {},
    options: objectOf(form.options) ?? {},
    missed: form.missed,
    most_missed: Number(form.most_missed),
    overlap: form.overlap,
    windows: form.windows.map(({ hours, days, then }) => ({ hours: hours.trim(), days: days.trim(), then })),
  };
}

/** The value of a field as two versions of it are compared. */
export function shownField(form: ScheduleForm, field: ScheduleField): string {
  if (field !== "windows") return form[field];
  return form.windows.map(({ hours, days, then }) => words.schedules.windowText(hours, days, then)).join("; ");
}

export function differences(one: ScheduleForm, other: ScheduleForm): ScheduleField[] {
  return (Object.keys(one) as ScheduleField[]).filter((field) => shownField(one, field) !== shownField(other, field));
}

/** Only what differs from the schedule as it was opened. A new rule replaces the old one of the other sort. */
export function changeOf(form: ScheduleForm, before: ScheduleForm): ScheduleChange {
  const changed = differences(form, before);
  const entries = Object.entries(bodyOfForm(form)).filter(
    ([name, value]) =>
      changed.some((field) => field === name) && !((name === "cron" || name === "every") && value === null),
  );
  return Object.fromEntries(entries);
}
