import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import type { Job } from "../../api/client";
import { changeJob, type JobChange } from "../../api/jobs";
import { ApiProblem } from "../../api/problem";
import { useOrder } from "../../hooks/use-order";
import { Button } from "../../parts/button";
import { Dialog } from "../../parts/dialog";
import { TextAreaField, TextField } from "../../parts/field";
import { JsonDiffTable } from "../../parts/json-diff-table";
import { words } from "../../words";
import { changedFields, type EditedFields, fieldsOf, objectOf } from "./edited-fields";
import styles from "./job.module.css";

const text = words.job.edit;

/** Changes a waiting job. When somebody else changed it meanwhile, both versions are shown and nothing is lost. */
export function EditDialog({ job, etag, onClose }: { job: Job; etag: string; onClose: () => void }) {
  const client = useQueryClient();
  const [began] = useState({ job, etag });
  const [version, setVersion] = useState(etag);
  const [base, setBase] = useState(job);
  const [fields, setFields] = useState<EditedFields>(() => fieldsOf(job));
  const set = (name: keyof EditedFields) => (event: { target: { value: string } }) =>
    setFields({ ...fields, [name]: event.target.value });
  const args = objectOf(fields.args);
  const change = args && changedFields(base, fields, args);
  const order = useOrder((body: JobChange) => changeJob(job.id, version, body), {
    done: words.job.orders.done.edit,
    refresh: [
      ["jobs", "one", job.id],
      ["jobs", "explain", job.id],
      ["jobs", "list"],
    ],
    toastError: false,
    onDone: onClose,
  });
  const conflict = order.error instanceof ApiProblem && order.error.status === 412;
  const newest = client.getQueryData<{ data: Job; etag: string }>(["jobs", "one", job.id]);
  const outdated = conflict && newest !== undefined && newest.etag !== version;
  return (
    <Dialog
      wide
      title={text.title}
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>{words.cancel}</Button>
          <Button
            tone="primary"
            busy={order.isPending}
            disabled={!change || order.isPending}
            onClick={() => {
              if (outdated) {
                setVersion(newest.etag);
                setBase(newest.data);
              }
              if (change) order.mutate(change);
            }}
          >
            {text.save}
          </Button>
        </>
      }
    >
      <TextAreaField
        label={text.args}
        hint={text.argsHint}
        error={args ? null : text.badJson}
        rows={Math.min(16, fields.args.split("\n").length + 1)}
        spellCheck={false}
        className={styles.code ?? ""}
        value={fields.args}
        onChange={set("args")}
      />
      <div className={styles.editRow}>
        <TextField label={text.priority} inputMode="numeric" value={fields.priority} onChange={set("priority")} />
        <TextField label={text.runIn} hint={text.runInHint} value={fields.runIn} onChange={set("runIn")} />
      </div>
      <TextField label={text.tags} value={fields.tags} onChange={set("tags")} />
      {order.error && (
        <p role="alert" className={styles.alert}>
          {conflict ? text.conflict : order.error.message}
        </p>
      )}
      {conflict && newest && (
        <JsonDiffTable
          label={text.title}
          before={fieldsOf(began.job)}
          after={fieldsOf(newest.data)}
          beforeTitle={words.job.timeline.created}
          afterTitle={text.current}
        />
      )}
    </Dialog>
  );
}
