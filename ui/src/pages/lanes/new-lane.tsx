import { useState } from "react";
import { useLocation } from "wouter";
import { fieldErrors } from "../../api/field-errors";
import { createLane } from "../../api/lanes";
import { laneHref } from "../../api/searches";
import { useOrder } from "../../hooks/use-order";
import { Button } from "../../parts/button";
import { Dialog } from "../../parts/dialog";
import { TextField } from "../../parts/field";
import { OrderError } from "../../parts/order-error";
import { words } from "../../words";
import { LaneFields } from "./lane-fields";
import { bodyOfForm, errorsOf, type LaneField, NEW_LANE } from "./lane-form";

const text = words.lanes;
const FIELDS = Object.keys(NEW_LANE) as LaneField[];

export function CreateLane({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState("");
  const [form, setForm] = useState(NEW_LANE);
  const [tried, setTried] = useState(false);
  const [, navigate] = useLocation();
  const create = useOrder(
    () => {
      // What is null is left to the API's defaults; approval can only be set by a change.
      const sent = Object.fromEntries(
        Object.entries(bodyOfForm(form)).filter(([name, value]) => value !== null && name !== "requires_approval"),
      );
      return createLane({ ...sent, name: name.trim() });
    },
    {
      done: text.created(name),
      refresh: [["lanes"], ["stats", "overview"]],
      onDone: (lane) => navigate(laneHref(lane.name)),
      toastError: false,
    },
  );
  const errors = { ...fieldErrors(create.error, FIELDS), ...(tried ? errorsOf(form) : {}) };
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
            disabled={!name.trim() || create.isPending}
            onClick={() => {
              setTried(true);
              if (Object.keys(errorsOf(form)).length === 0) create.mutate(undefined);
            }}
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
      <LaneFields fresh form={form} errors={errors} onChange={setForm} />
      <OrderError error={create.error} />
    </Dialog>
  );
}
