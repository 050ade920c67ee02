import { Button } from "../../parts/button";
import { Dialog } from "../../parts/dialog";
import { words } from "../../words";
import { differences, type LaneField, type LaneForm } from "./lane-form";
import styles from "./lanes.module.css";

const text = words.lanes;

interface LaneConflictProps {
  mine: LaneForm;
  theirs: LaneForm;
  busy: boolean;
  onTakeTheirs: () => void;
  onSaveMine: () => void;
  onClose: () => void;
}

const NAMES: Record<LaneField, string> = { ...text.fields, rate_amount: text.fields.rate, rate_per: text.fields.per };

const shown = (value: string | boolean): string =>
  typeof value === "boolean" ? (value ? words.yes : words.no) : value || words.none;

/** Two versions of a lane side by side: what this person typed, and what another saved meanwhile. */
export function LaneConflict({ mine, theirs, busy, onTakeTheirs, onSaveMine, onClose }: LaneConflictProps) {
  return (
    <Dialog
      wide
      title={text.conflict.title}
      onClose={onClose}
      footer={
        <>
          <Button onClick={onTakeTheirs}>{text.conflict.takeTheirs}</Button>
          <Button tone="primary" busy={busy} onClick={onSaveMine}>
            {text.conflict.saveYours}
          </Button>
        </>
      }
    >
      <p>{text.conflict.text}</p>
      <table className={styles.compared}>
        <thead>
          <tr>
            <th scope="col">{text.conflict.field}</th>
            <th scope="col">{text.conflict.yours}</th>
            <th scope="col">{text.conflict.theirs}</th>
          </tr>
        </thead>
        <tbody>
          {differences(mine, theirs).map((field) => (
            <tr key={field}>
              <th scope="row">{NAMES[field]}</th>
              <td>{shown(mine[field])}</td>
              <td>{shown(theirs[field])}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Dialog>
  );
}
