import type { Schedule, ScheduleChange } from "../../api/schedules";
import { words } from "../../words";
import { durationInput } from "../../words/duration-input";

/** What stands in the fields of the form. */
export interface ScheduleForm {
  kind: string;
  cron: string;
  every: string;
  tz: string;
  args: string;
  missed: Schedule["missed"];
  overlap: Schedule["overlap"];
}

export type ScheduleField = keyof ScheduleForm;

export const NEW_SCHEDULE: ScheduleForm = {
  kind: "",
  cron: "",
  every: "",
  tz: "UTC",
  args: "{}",
  missed: "latest",
  overlap: "queue",
};

export function formOf(schedule: Schedule): ScheduleForm {
  return {
    kind: schedule.kind,
    cron: schedule.cron ?? "",
    every: durationInput(schedule.every),
    tz: schedule.tz,
    args: JSON.stringify(schedule.args, null, 2),
    missed: schedule.missed,
    overlap: schedule.overlap,
  };
}

/** The typed arguments; null when they are no JSON object. */
export function argsOf(form: ScheduleForm): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(form.args || "{}");
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : null;
  } catch {
    return null;
  }
}

export function errorsOf(form: ScheduleForm): Partial<Record<ScheduleField, string>> {
  return argsOf(form) === null ? { args: words.schedules.notJson } : {};
}

export function bodyOfForm(form: ScheduleForm) {
  return {
    kind: form.kind.trim(),
    cron: form.cron.trim() || null,
    every: form.every.trim() || null,
    tz: form.tz.trim(),
    args: argsOf(form) ?? {},
    missed: form.missed,
    overlap: form.overlap,
  };
}

export function differences(one: ScheduleForm, other: ScheduleForm): ScheduleField[] {
  return (Object.keys(one) as ScheduleField[]).filter((field) => one[field] !== other[field]);
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
