import type { Lane, LaneChange } from "../../api/lanes";
import { words } from "../../words";
import { durationInput } from "../../words/duration-input";

/** What stands in the fields of the form: texts, as they were typed. */
export interface LaneForm {
  kinds: string;
  slots: string;
  max_total: string;
  order: Lane["order"];
  poll_interval: string;
  heartbeat_timeout: string;
  progress_timeout: string;
  aging_interval: string;
  rate_amount: string;
  rate_per: string;
  requires_approval: boolean;
}

export type LaneField = keyof LaneForm;
export type FormErrors = Partial<Record<LaneField, string>>;

export function formOf(lane: Lane): LaneForm {
  return {
    kinds: lane.kinds.join(", "),
    slots: String(lane.slots),
    max_total: lane.max_total === null ? "" : String(lane.max_total),
    order: lane.order,
    poll_interval: durationInput(lane.poll_interval),
    heartbeat_timeout: durationInput(lane.heartbeat_timeout),
    progress_timeout: durationInput(lane.progress_timeout),
    aging_interval: durationInput(lane.aging_interval),
    rate_amount: lane.rate === null ? "" : String(lane.rate.amount),
    rate_per: lane.rate === null ? "" : durationInput(lane.rate.per),
    requires_approval: lane.requires_approval,
  };
}

export const NEW_LANE: LaneForm = {
  kinds: "",
  slots: "4",
  max_total: "",
  order: "fast",
  poll_interval: "5s",
  heartbeat_timeout: "1m",
  progress_timeout: "",
  aging_interval: "",
  rate_amount: "",
  rate_per: "",
  requires_approval: false,
};

const wholeNumber = (typed: string): number | null => (/^\d+$/.test(typed.trim()) ? Number(typed) : null);

/** What is wrong in the form as far as the browser can tell; durations are judged by the API. */
export function errorsOf(form: LaneForm): FormErrors {
  const errors: FormErrors = {};
  if (wholeNumber(form.slots) === null) errors.slots = words.lanes.notNumber;
  for (const field of ["max_total", "rate_amount"] as const)
    if (form[field].trim() && wholeNumber(form[field]) === null) errors[field] = words.lanes.notNumber;
  return errors;
}

/** The whole form as the body of a change. */
export function bodyOfForm(form: LaneForm): Required<Omit<LaneChange, "enabled">> {
  const orNull = (typed: string) => typed.trim() || null;
  return {
    kinds: form.kinds
      .split(",")
      .map((kind) => kind.trim())
      .filter(Boolean),
    slots: wholeNumber(form.slots),
    max_total: wholeNumber(form.max_total),
    order: form.order,
    poll_interval: form.poll_interval.trim(),
    heartbeat_timeout: form.heartbeat_timeout.trim(),
    progress_timeout: orNull(form.progress_timeout),
    aging_interval: orNull(form.aging_interval),
    requires_approval: form.requires_approval,
    rate: form.rate_amount.trim()
      ? { amount: wholeNumber(form.rate_amount) ?? 0, per: form.rate_per.trim() || "1s", window: false }
      : null,
  };
}

const FIELDS_OF: Partial<Record<keyof LaneChange, LaneField[]>> = { rate: ["rate_amount", "rate_per"] };

/** Only what differs from the lane as it was opened: what others changed meanwhile in other fields stays. */
export function changeOf(form: LaneForm, before: LaneForm): LaneChange {
  const body = bodyOfForm(form);
  return Object.fromEntries(
    Object.entries(body).filter(([name]) => {
      const fields = FIELDS_OF[name as keyof LaneChange] ?? [name as LaneField];
      return fields.some((field) => form[field] !== before[field]);
    }),
  );
}

/** The fields in which two forms differ. */
export function differences(one: LaneForm, other: LaneForm): LaneField[] {
  return (Object.keys(one) as LaneField[]).filter((field) => one[field] !== other[field]);
}
