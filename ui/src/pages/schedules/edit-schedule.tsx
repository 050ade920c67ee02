import { useState } from "react";
import type { Versioned } from "../../api/client";
import { fieldErrors } from "../../api/field-errors";
import { ApiProblem } from "../../api/problem";
import { changeSchedule, createSchedule, type Schedule } from "../../api/schedules";
import { useOrder } from "../../hooks/use-order";
import { Button } from "../../parts/button";
import { Dialog } from "../../parts/dialog";
import { EditConflict } from "../../parts/edit-conflict";
import { CheckField, TextField } from "../../parts/field";
import { OrderError } from "../../parts/order-error";
import { words } from "../../words";
import { ScheduleFields } from "./schedule-fields";
import {
  bodyOfForm,
  changeOf,
  differences,
  errorsOf,
  formOf,
  NEW_SCHEDULE,
  type ScheduleField,
  shownField,
} from "./schedule-form";

const text = words.schedules;
const FIELDS = Object.keys(NEW_SCHEDULE) as ScheduleField[];
const REFRESH = [["schedules"], ["system", "audit"]];

/** The form for a schedule. When another person saved first, both versions are shown side by side. */
export function EditSchedule({ opened, onClose }: { opened: Versioned<Schedule>; onClose: () => void }) {
  const [base, setBase] = useState(opened);
  const [form, setForm] = useState(() => formOf(opened.data));
  const before = formOf(base.data);
  const save = useOrder((etag: string) => changeSchedule(base.data.name, etag, changeOf(form, before)), {
    done: text.saved(base.data.name),
    refresh: REFRESH,
    onDone: onClose,
    toastError: false,
  });
  const conflict = save.error instanceof ApiProblem && save.error.status === 412 ? save.error.problem?.current : null;
  if (conflict) {
    const theirs = conflict as unknown as Schedule;
    const saved = formOf(theirs);
    return (
      <EditConflict
        fields={differences(form, saved).map((field) => ({
          name: text.fields[field],
          mine: shownField(form, field),
          theirs: shownField(saved, field),
        }))}
        busy={save.isPending}
        onTakeTheirs={() => {
          setBase({ data: theirs, etag: `"${theirs.version}"` });
          setForm(saved);
          save.reset();
        }}
        onSaveMine={() => save.mutate("*")}
        onClose={onClose}
      />
    );
  }
  const wrong = errorsOf(form);
  const ready = differences(form, before).length > 0 && Object.keys(wrong).length === 0;
  return (
    <Dialog
      wide
      title={text.schedule(base.data.name)}
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>{words.cancel}</Button>
          <Button
            tone="primary"
            busy={save.isPending}
            disabled={!ready || save.isPending}
            onClick={() => save.mutate(base.etag)}
          >
            {words.save}
          </Button>
        </>
      }
    >
      <ScheduleFields form={form} errors={{ ...fieldErrors(save.error, FIELDS), ...wrong }} onChange={setForm} />
      <OrderError error={save.error} />
    </Dialog>
  );
}

export function CreateSchedule({ onClose, onCreated }: { onClose: () => void; onCreated: (name: string) => void }) {
  const [name, setName] = useState("");
  const [tenant, setTenant] = useState("");
  const [enabled, setEnabled] = useState(true);
  const [form, setForm] = useState(NEW_SCHEDULE);
  const body = () => ({ ...bodyOfForm(form), name: name.trim(), tenant: tenant.trim() || null, enabled });
  const create = useOrder(() => createSchedule(body()), {
    done: text.created(name),
    refresh: REFRESH,
    onDone: (schedule) => onCreated(schedule.name),
    toastError: false,
  });
  const wrong = errorsOf(form);
  const ready = Boolean(name.trim() && form.kind.trim()) && Object.keys(wrong).length === 0;
  return (
    <Dialog
      wide
      title={text.create}
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>{words.cancel}</Button>
          <Button
            tone="primary"
            busy={create.isPending}
            disabled={!ready || create.isPending}
            onClick={() => create.mutate(undefined)}
          >
            {text.create}
          </Button>
        </>
      }
    >
      <TextField
        label={text.fields.name}
        error={fieldErrors(create.error, ["name"]).name}
        value={name}
        autoComplete="off"
        onChange={(event) => setName(event.target.value)}
      />
      <ScheduleFields form={form} errors={{ ...fieldErrors(create.error, FIELDS), ...wrong }} onChange={setForm} />
      <TextField
        label={text.fields.tenant}
        hint={text.fields.tenantHint}
        error={fieldErrors(create.error, ["tenant"]).tenant}
        value={tenant}
        autoComplete="off"
        onChange={(event) => setTenant(event.target.value)}
      />
      <CheckField
        label={text.fields.paused}
        checked={!enabled}
        onChange={(event) => setEnabled(!event.target.checked)}
      />
      <OrderError error={create.error} />
    </Dialog>
  );
}
