import type { Job } from "../../api/client";

const shellQuoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

/** A value as Python writes it. */
export function pythonOf(value: unknown): string {
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value === "number") return String(value);
  if (typeof value === "string") return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(pythonOf).join(", ")}]`;
  const entries = Object.entries(value as Record<string, unknown>);
  return `{${entries.map(([name, each]) => `${JSON.stringify(name)}: ${pythonOf(each)}`).join(", ")}}`;
}

const isName = (text: string): boolean => /^[A-Za-z_]\w*$/.test(text);

/** Named arguments of a call. */
function pythonArguments(args: Job["args"]): string {
  const entries = Object.entries(args);
  if (entries.every(([name]) => isName(name)))
    return entries.map(([name, value]) => `${name}=${pythonOf(value)}`).join(", ");
  return `**${pythonOf(args)}`;
}

/** The function's name: the last part of the kind. */
const functionOf = (kind: string): string => {
  const last = kind.split(/[.:/]/).at(-1) ?? "";
  return isName(last) ? last : "task";
};

/** api: the address of the API, with its prefix. */
export function asCurl(job: Job, api: string): string {
  const body = JSON.stringify({ kind: job.kind, args: job.args });
  return `curl -H "$AUTH" -H 'Content-Type: application/json' -d ${shellQuoted(body)} ${api}/jobs`;
}

export function asCommand(job: Job): string {
  const plain = /^[\w.:/-]+$/.test(job.kind) ? job.kind : shellQuoted(job.kind);
  return `rowlock enqueue ${plain} --args ${shellQuoted(JSON.stringify(job.args))}`;
}

export function asPython(job: Job): string {
  return `await ${functionOf(job.kind)}.enqueue(${pythonArguments(job.args)})`;
}
