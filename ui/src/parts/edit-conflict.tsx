import { words } from "../words";
import { Button } from "./button";
import { Dialog } from "./dialog";
import styles from "./edit-conflict.module.css";

const text = words.conflict;

export interface ConflictingField {
  name: string;
  mine: string | boolean;
  theirs: string | boolean;
}

interface EditConflictProps {
  /** Only the fields that differ. */
  fields: readonly ConflictingField[];
  busy: boolean;
  onTakeTheirs: () => void;
  onSaveMine: () => void;
  onClose: () => void;
}

const shown = (value: string | boolean): string =>
  typeof value === "boolean" ? (value ? words.yes : words.no) : value || words.none;

/** Two versions side by side: what this person typed, and what another person saved meanwhile. */
export function EditConflict({ fields, busy, onTakeTheirs, onSaveMine, onClose }: EditConflictProps) {
  return (
    <Dialog
      wide
      title={text.title}
      onClose={onClose}
      footer={
        <>
          <Button onClick={onTakeTheirs}>{text.takeTheirs}</Button>
          <Button tone="primary" busy={busy} onClick={onSaveMine}>
            {text.saveYours}
          </Button>
        </>
      }
    >
      <p>{text.text}</p>
      <table className={styles.compared}>
        <thead>
          <tr>
            <th scope="col">{text.field}</th>
            <th scope="col">{text.yours}</th>
            <th scope="col">{text.theirs}</th>
          </tr>
        </thead>
        <tbody>
          {fields.map(({ name, mine, theirs }) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              <td>{shown(mine)}</td>
              <td>{shown(theirs)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Dialog>
  );
}
