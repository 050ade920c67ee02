/** What a form offers for one argument. */
export interface SchemaField {
  name: string;
  title: string;
  description: string | null;
  required: boolean;
  widget: "text" | "secret" | "long-text" | "integer" | "number" | "boolean" | "choice" | "date-time" | "date" | "json";
  /** For choices: every value as JSON. */
  choices: readonly string[];
  /** The default as the form shows it; empty: none. */
  initial: string;
  nullable: boolean;
}

type Schema = Record<string, unknown>;

const isObject = (value: unknown): value is Schema =>
  typeof value === "object" && value !== null && !Array.isArray(value);

function resolved(schema: Schema, root: Schema): Schema {
  const target = schema.$ref;
  if (typeof target !== "string" || !target.startsWith("#/")) return schema;
  let found: unknown = root;
  for (const step of target.slice(2).split("/")) found = isObject(found) ? found[step] : undefined;
  return isObject(found) ? { ...found, ...without(schema, "$ref") } : schema;
}

const without = (schema: Schema, name: string): Schema =>
  Object.fromEntries(Object.entries(schema).filter(([key]) => key !== name));

/** The schema behind "this or null". */
function withoutNull(schema: Schema, root: Schema): { schema: Schema; nullable: boolean } {
  const options = schema.anyOf;
  if (!Array.isArray(options)) return { schema: resolved(schema, root), nullable: schema.type === "null" };
  const others = options.filter((each): each is Schema => isObject(each) && each.type !== "null");
  const nullable = others.length < options.length;
  const [only] = others;
  if (others.length === 1 && only)
    return { schema: { ...without(schema, "anyOf"), ...resolved(only, root) }, nullable };
  return { schema, nullable };
}

function widgetOf(schema: Schema): SchemaField["widget"] {
  if (Array.isArray(schema.enum) || "const" in schema) return "choice";
  const format = schema.format;
  switch (schema.type) {
    case "integer":
      return "integer";
    case "number":
      return "number";
    case "boolean":
      return "boolean";
    case "string":
      if (format === "password" || schema.writeOnly === true) return "secret";
      if (format === "date-time" || format === "date") return format;
      return typeof schema.maxLength === "number" && schema.maxLength <= 200 ? "text" : "long-text";
    default:
      return "json";
  }
}

/** A value as the text of its widget. */
export function textOf(value: unknown, widget: SchemaField["widget"]): string {
  if (value === undefined) return "";
  if (["json", "choice", "boolean"].includes(widget)) return JSON.stringify(value, null, widget === "json" ? 2 : 0);
  return value === null ? "" : typeof value === "string" ? value : JSON.stringify(value);
}

/** The arguments of a kind as fields of a form; nested ones are entered as JSON. */
export function fieldsOf(schema: unknown): SchemaField[] {
  if (!isObject(schema) || !isObject(schema.properties)) return [];
  const required = Array.isArray(schema.required) ? schema.required : [];
  return Object.entries(schema.properties).map(([name, property]) => {
    const found = withoutNull(isObject(property) ? property : {}, schema);
    const widget = widgetOf(found.schema);
    const values: unknown[] = Array.isArray(found.schema.enum)
      ? found.schema.enum
      : "const" in found.schema
        ? [found.schema.const]
        : [];
    return {
      name,
      title: name,
      description: typeof found.schema.description === "string" ? found.schema.description : null,
      required: required.includes(name),
      widget,
      choices: values.map((value) => JSON.stringify(value)),
      initial: isObject(property) && "default" in property ? textOf(property.default, widget) : "",
      nullable: found.nullable,
    };
  });
}

export type FieldError = "required" | "notInteger" | "notNumber" | "notJson";

function valueOf(field: SchemaField, text: string): { value: unknown } | { error: FieldError } {
  switch (field.widget) {
    case "integer":
      return /^-?\d+$/.test(text.trim()) ? { value: Number(text) } : { error: "notInteger" };
    case "number":
      return Number.isFinite(Number(text)) ? { value: Number(text) } : { error: "notNumber" };
    case "choice":
    case "boolean":
    case "json":
      try {
        return { value: JSON.parse(text) as unknown };
      } catch {
        return { error: "notJson" };
      }
    default:
      return { value: text };
  }
}

export interface ReadForm {
  args: Record<string, unknown>;
  errors: Record<string, FieldError>;
}

/** The arguments that the texts of a form stand for. An empty text leaves an argument out; JSON can say "". */
export function argsOf(fields: readonly SchemaField[], texts: Readonly<Record<string, string>>): ReadForm {
  const args: Record<string, unknown> = {};
  const errors: Record<string, FieldError> = {};
  for (const field of fields) {
    const text = texts[field.name] ?? "";
    if (text.trim() === "") {
      if (!field.required) continue;
      if (field.nullable) args[field.name] = null;
      else errors[field.name] = "required";
      continue;
    }
    const read = valueOf(field, text);
    if ("error" in read) errors[field.name] = read.error;
    else args[field.name] = read.value;
  }
  return { args, errors };
}
