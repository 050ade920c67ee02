import { useState } from "react";
import { fieldErrors } from "../../api/field-errors";
import { changeLane, type Lane } from "../../api/lanes";
import type { Versioned } from "../../api/client";
import { ApiProblem } from "../../api/problem";
import { useOrder } from "../../hooks/use-order";
import { Button } from "../../parts/button";
import { Dialog } from "../../parts/dialog";
import { EditConflict } from "../../parts/edit-conflict";
import { OrderError } from "../../parts/order-error";
import { words } from "../../words";
import { LaneFields } from "./lane-fields";
import { changeOf, differences, errorsOf, formOf, type LaneField } from "./lane-form";

const text = words.lanes;
const FIELDS = Object.keys(formOf({ kinds: [], rate: null } as unknown as Lane)) as LaneField[];

const NAMES: Record<LaneField, string> = { ...text.fields, rate_amount: text.fields.rate, rate_per: text.fields.per };

/** The form for a lane's settings. When another person saved first, both versions are shown side by side. */
export function EditLane({ opened, onClose }: { opened: Versioned<Lane>; onClose: () => void }) {
  const [base, setBase] = useState(opened);
  const [form, setForm] = useState(() => formOf(opened.data));
  const [tried, setTried] = useState(false);
  const before = formOf(base.data);
  const save = useOrder((etag: string) => changeLane(base.data.name, etag, changeOf(form, before)), {
    done: text.saved(base.data.name),
    refresh: [["lanes"], ["stats", "overview"], ["system", "audit"]],
    onDone: onClose,
    toastError: false,
  });
  const conflict = save.error instanceof ApiProblem && save.error.status === 412 ? save.error.problem?.current : null;
  const errors = { ...fieldErrors(save.error, FIELDS), ...(tried ? errorsOf(form) : {}) };
  const changed = Object.keys(changeOf(form, before)).length > 0;

  if (conflict) {
    const theirs = conflict as unknown as Lane;
    return (
      <EditConflict
        fields={differences(form, formOf(theirs)).map((field) => ({
          name: NAMES[field],
          mine: form[field],
          theirs: formOf(theirs)[field],
        }))}
        busy={save.isPending}
        onTakeTheirs={() => {
          setBase({ data: theirs, etag: `"${theirs.version}"` });
          setForm(formOf(theirs));
          save.reset();
        }}
        onSaveMine={() => save.mutate("*")}
        onClose={onClose}
      />
    );
  }
  return (
    <Dialog
      wide
      title={text.lane(base.data.name)}
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>{words.cancel}</Button>
          <Button
            tone="primary"
            busy={save.isPending}
            disabled={!changed || save.isPending}
            onClick={() => {
              setTried(true);
              if (Object.keys(errorsOf(form)).length === 0) save.mutate(base.etag);
            }}
          >
            {words.save}
          </Button>
        </>
      }
    >
      <LaneFields form={form} errors={errors} onChange={setForm} />
      <OrderError error={save.error} />
    </Dialog>
  );
}
