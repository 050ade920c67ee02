import type { Job } from "../../api/client";
import type { JobChange } from "../../api/jobs";

/** A job's changeable fields as texts of a form. */
export interface EditedFields {
  args: string;
  priority: string;
  tags: string;
  /** Empty: the time stays. */
  runIn: string;
}

export function fieldsOf(job: Job): EditedFields {
  return {
    args: JSON.stringify(job.args, null, 2),
    priority: String(job.priority),
    tags: job.tags.join(", "),
    runIn: "",
  };
}

/** The JSON object of a text; null: it is none. */
export function objectOf(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : null;
  } catch {
    return null;
  }
}

const tagsOf = (text: string): string[] =>
  text
    .split(",")
    .map((tag) => tag.trim())
    .filter(Boolean);

/** What differs from the job; null: nothing, or a priority that is no number. */
export function changedFields(job: Job, fields: EditedFields, args: Record<string, unknown>): JobChange | null {
  if (!/^-?\d{1,3}$/.test(fields.priority.trim())) return null;
  const priority = Number(fields.priority);
  const tags = tagsOf(fields.tags);
  const change: JobChange = {
    ...(JSON.stringify(args) === JSON.stringify(job.args) ? {} : { args }),
    ...(priority === job.priority ? {} : { priority }),
    ...(tags.join() === job.tags.join() ? {} : { tags }),
    ...(fields.runIn.trim() ? { run_in: fields.runIn.trim() } : {}),
  };
  return Object.keys(change).length > 0 ? change : null;
}
