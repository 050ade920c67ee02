import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useLocation, useSearchParams } from "wouter";
import type { Job } from "../../api/client";
import { jobQueries } from "../../api/jobs";
import { type Kind, kindQueries, type Submission, submitJob } from "../../api/kinds";
import { ApiProblem } from "../../api/problem";
import { useOrder } from "../../hooks/use-order";
import { useFeatures, useMayOrder } from "../../hooks/use-session";
import { useUrlState } from "../../hooks/use-url-state";
import { Button } from "../../parts/button";
import { CheckField, SelectField, TextAreaField, TextField } from "../../parts/field";
import { Page, Panel } from "../../parts/page";
import { Empty, Forbidden, Loaded, Loading } from "../../parts/page-states";
import { Segments } from "../../parts/tabs";
import { words } from "../../words";
import { ArgumentField } from "./argument-field";
import styles from "./new-job.module.css";
import { argsOf, fieldsOf, type SchemaField, textOf } from "./schema-fields";

const text = words.newJob;
/** What the API shows in place of a secret. */
const MASK = "•••";

export default function NewJobPage() {
  const mayOrder = useMayOrder();
  const readOnly = useFeatures()?.read_only ?? false;
  const kinds = useQuery(kindQueries.list());
  const [params] = useSearchParams();
  const from = params.get("from") ?? "";
  const source = useQuery({ ...jobQueries.one(from), enabled: from !== "" });
  const [chosen, setChosen] = useUrlState("kind", source.data?.data.kind ?? "");
  const [, navigate] = useLocation();
  if (!mayOrder("jobs:submit"))
    return (
      <Page title={text.title}>
        {readOnly ? <Empty title={words.shell.readOnlyBanner} /> : <Forbidden permission="jobs:submit" />}
      </Page>
    );
  const kind = kinds.data?.items.find((each) => each.name === chosen);
  return (
    <Page
      title={text.title}
      subtitle={
        from && (
          <>
            {text.copyOf} <Link href={`/jobs/${from}`}>{from}</Link>
          </>
        )
      }
    >
      <Loaded query={kinds}>
        {({ items }) => {
          if (items.length === 0) return <Empty title={text.noKinds}>{text.noKindsText}</Empty>;
          return (
            <div className={styles.layout}>
              <Panel>
                <SelectField
                  label={text.kind}
                  hint={kind ? <KindFacts kind={kind} /> : text.kindHint}
                  value={chosen}
                  onChange={(event) => setChosen(event.target.value, { replace: true })}
                >
                  <option value="">{text.choose}</option>
                  {items.map((each) => (
                    <option key={each.name}>{each.name}</option>
                  ))}
                </SelectField>
              </Panel>
              {from !== "" && !source.data && !source.error && <Loading lines={4} />}
              {kind && (from === "" || source.data !== undefined || source.error !== null) && (
                <KindForm
                  key={`${kind.name}/${from}`}
                  kind={kind}
                  source={source.data?.data.kind === kind.name ? source.data.data : null}
                  onDone={(id) => navigate(`/jobs/${id}`)}
                />
              )}
            </div>
          );
        }}
      </Loaded>
    </Page>
  );
}

function KindFacts({ kind }: { kind: Kind }) {
  const facts = [kind.lane && text.lane(kind.lane), text.attempts(kind.max_attempts), kind.approval && text.approval];
  return (
    <>
      {kind.description && <span className={styles.description}>{kind.description}</span>}
      <span>{facts.filter(Boolean).join(" · ")}</span>
    </>
  );
}

interface KindFormProps {
  kind: Kind;
  /** The job whose arguments are the beginning. */
  source: Job | null;
  onDone: (id: string) => void;
}

function KindForm({ kind, source, onDone }: KindFormProps) {
  const schema = useQuery(kindQueries.schema(kind.name));
  return (
    <Loaded query={schema} lines={5}>
      {(found) => <ArgumentForm kind={kind} fields={fieldsOf(found)} source={source} onDone={onDone} />}
    </Loaded>
  );
}

const NO_OPTIONS = { priority: "", runIn: "", uniqueKey: "", tags: "", maxAttempts: "", approval: false };

function initialTexts(fields: readonly SchemaField[], source: Job | null): Record<string, string> {
  return Object.fromEntries(
    fields.map((field) => {
      const value = source?.args[field.name];
      if (!source || value === undefined) return [field.name, field.initial];
      return [field.name, value === MASK ? "" : textOf(value, field.widget)];
    }),
  );
}

function ArgumentForm({ kind, fields, source, onDone }: KindFormProps & { fields: readonly SchemaField[] }) {
  const [view, setView] = useState<"form" | "json">("form");
  const [texts, setTexts] = useState(() => initialTexts(fields, source));
  const [json, setJson] = useState("");
  const [options, setOptions] = useState(NO_OPTIONS);
  const [tried, setTried] = useState(false);
  const form = argsOf(fields, texts);
  const written = view === "json" ? objectOf(json) : form.args;
  const complete = written !== null && (view === "json" || Object.keys(form.errors).length === 0);
  const order = useOrder(submitJob, {
    done: (job) => (job.deduplicated ? text.existed(job.id) : text.submitted(job.id)),
    refresh: [["jobs", "list"], ["approvals"]],
    toastError: false,
    onDone: (job) => onDone(job.id),
  });
  const refused = refusedFields(order.error);
  const choose = (next: "form" | "json") => {
    if (next === "json") setJson(JSON.stringify(form.args, null, 2));
    else if (written)
      setTexts(Object.fromEntries(fields.map((each) => [each.name, textOf(written[each.name], each.widget)])));
    setView(next);
  };
  return (
    <form
      className={styles.layout}
      onSubmit={(event) => {
        event.preventDefault();
        setTried(true);
        if (complete) order.mutate(submissionOf(kind.name, written, options));
      }}
    >
      <Panel
        title={text.args}
        actions={
          <Segments
            label={text.view}
            choices={[
              { name: "form", label: text.asForm },
              { name: "json", label: text.asJson },
            ]}
            chosen={view}
            onChoose={choose}
          />
        }
      >
        <div className={styles.fields}>
          {view === "json" ? (
            <TextAreaField
              label={text.jsonLabel}
              rows={10}
              spellCheck={false}
              className={styles.code}
              error={written ? null : text.notObject}
              value={json}
              onChange={(event) => setJson(event.target.value)}
            />
          ) : fields.length === 0 ? (
            <p>{text.noArgs}</p>
          ) : (
            fields.map((field) => (
              <ArgumentField
                key={field.name}
                field={field}
                value={texts[field.name] ?? ""}
                hidden={source?.args[field.name] === MASK}
                error={
                  refused[field.name] ??
                  (tried && form.errors[field.name] ? text[form.errors[field.name] ?? "required"] : null)
                }
                onChange={(value) => setTexts({ ...texts, [field.name]: value })}
              />
            ))
          )}
        </div>
      </Panel>
      <Options options={options} onChange={setOptions} />
      {order.error && (
        <p role="alert" className={styles.alert}>
          {order.error.message}
        </p>
      )}
      <p>
        <Button
          type="submit"
          tone="primary"
          busy={order.isPending}
          disabled={order.isPending || (view === "json" && !written)}
        >
          {text.submit}
        </Button>
      </p>
    </form>
  );
}

/** What the API said of single arguments, by name. */
function refusedFields(error: Error | null): Record<string, string> {
  const faults = error instanceof ApiProblem ? (error.problem?.errors ?? []) : [];
  return Object.fromEntries(
    faults.flatMap(({ pointer, detail }) => {
      const name = /^#\/args\/([^/]+)/.exec(pointer)?.[1];
      return name ? [[name, detail] as const] : [];
    }),
  );
}

function objectOf(json: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(json);
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : null;
  } catch {
    return null;
  }
}

function submissionOf(kind: string, args: Record<string, unknown>, options: typeof NO_OPTIONS): Submission {
  const tags = options.tags
    .split(",")
    .map((tag) => tag.trim())
    .filter(Boolean);
  return {
    kind,
    args,
    ...(options.priority.trim() && { priority: Number(options.priority) }),
    ...(options.runIn.trim() && { run_in: options.runIn.trim() }),
    ...(options.uniqueKey.trim() && { unique_key: options.uniqueKey.trim() }),
    ...(options.maxAttempts.trim() && { max_attempts: Number(options.maxAttempts) }),
    ...(tags.length > 0 && { tags }),
    ...(options.approval && { approval: true }),
  };
}

interface OptionsProps {
  options: typeof NO_OPTIONS;
  onChange: (options: typeof NO_OPTIONS) => void;
}

function Options({ options, onChange }: OptionsProps) {
  const set = (name: keyof typeof NO_OPTIONS) => (event: { target: { value: string } }) =>
    onChange({ ...options, [name]: event.target.value });
  return (
    <Panel title={text.options}>
      <div className={styles.options}>
        <TextField
          label={text.priority}
          hint={text.priorityHint}
          inputMode="numeric"
          pattern="-?[0-9]{1,3}"
          value={options.priority}
          onChange={set("priority")}
        />
        <TextField label={text.runIn} hint={text.runInHint} value={options.runIn} onChange={set("runIn")} />
        <TextField
          label={text.maxAttempts}
          hint={text.priorityHint}
          inputMode="numeric"
          pattern="[0-9]*"
          value={options.maxAttempts}
          onChange={set("maxAttempts")}
        />
        <TextField
          label={text.uniqueKey}
          hint={text.uniqueKeyHint}
          value={options.uniqueKey}
          onChange={set("uniqueKey")}
        />
        <TextField label={text.tags} value={options.tags} onChange={set("tags")} />
        <CheckField
          label={text.demandApproval}
          checked={options.approval}
          onChange={(event) => onChange({ ...options, approval: event.target.checked })}
        />
      </div>
    </Panel>
  );
}
