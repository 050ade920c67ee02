import type { Webhook, WebhookBody, WebhookChange } from "../../api/webhooks";

export const STATES = ["pending", "completed", "completed_with_errors", "failed", "cancelled", "expired"] as const;
export const PARTS = ["args", "result", "errors", "meta"] as const;
/** Asked of the API where no state is ticked. */
const FINAL = STATES.filter((state) => state !== "pending");

type State = (typeof STATES)[number];
type Part = (typeof PARTS)[number];

/** What the dialog edits; kinds as they are typed. */
export interface WebhookForm {
  url: string;
  kinds: string;
  states: readonly State[];
  include: readonly Part[];
  description: string;
  tenant: string;
}

const EMPTY: WebhookForm = { url: "", kinds: "", states: [], include: [], description: "", tenant: "" };

const sameStates = (one: readonly string[], other: readonly string[]) =>
  one.length === other.length && one.every((each) => other.includes(each));

export function formOf(webhook: Webhook | null): WebhookForm {
  if (!webhook) return EMPTY;
  const all = sameStates(webhook.states, FINAL);
  return {
    url: webhook.url,
    kinds: sameStates(webhook.kinds, ["*"]) ? "" : webhook.kinds.join(", "),
    states: all ? [] : STATES.filter((state) => webhook.states.includes(state)),
    include: PARTS.filter((part) => webhook.include.includes(part)),
    description: webhook.description ?? "",
    tenant: webhook.tenant ?? "",
  };
}

function kindsOf(typed: string): string[] {
  const named = typed.split(/[\s,]+/).filter(Boolean);
  return named.length > 0 ? named : ["*"];
}

export function bodyOfForm(form: WebhookForm): WebhookBody {
  return {
    url: form.url.trim(),
    kinds: kindsOf(form.kinds),
    states: form.states.length > 0 ? [...form.states] : null,
    include: [...form.include],
    ...(form.description.trim() ? { description: form.description.trim() } : {}),
    ...(form.tenant.trim() ? { tenant: form.tenant.trim() } : {}),
  };
}

/** Every field: null would leave it as it is, and the form shows the whole webhook. */
export function changeOfForm(form: WebhookForm): WebhookChange {
  return {
    url: form.url.trim(),
    kinds: kindsOf(form.kinds),
    states: form.states.length > 0 ? [...form.states] : [...FINAL],
    include: [...form.include],
    description: form.description.trim(),
  };
}

/** The list with the entry, or without it. */
export function ticked<Entry>(list: readonly Entry[], entry: Entry, on: boolean): Entry[] {
  return on ? [...list.filter((each) => each !== entry), entry] : list.filter((each) => each !== entry);
}
