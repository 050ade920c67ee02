import { Button, IconButton } from "../../parts/button";
import { SelectField, TextField } from "../../parts/field";
import { words } from "../../words";
import { MOST_WINDOWS, NEW_WINDOW, type Window } from "./schedule-form";
import styles from "./schedules.module.css";

const text = words.schedules.window;

interface WindowFieldsProps {
  windows: readonly Window[];
  error: string | undefined;
  onChange: (windows: readonly Window[]) => void;
}

/** The maintenance windows of a schedule, a row each. */
export function WindowFields({ windows, error, onChange }: WindowFieldsProps) {
  const replaced = (place: number, part: Partial<Window>) =>
    onChange(windows.map((window, index) => (index === place ? { ...window, ...part } : window)));
  return (
    <fieldset className={styles.windows}>
      <legend>{words.schedules.windows}</legend>
      {windows.map((window, place) => (
        // Rows have no name of their own, and only the last one is ever added.
        <div key={place} className={styles.window} role="group" aria-label={text.label(place + 1)}>
          <TextField
            label={text.hours}
            hint={text.hoursHint}
            value={window.hours}
            onChange={(event) => replaced(place, { hours: event.target.value })}
          />
          <TextField
            label={text.days}
            hint={text.daysHint}
            value={window.days}
            onChange={(event) => replaced(place, { days: event.target.value })}
          />
          <SelectField
            label={text.then}
            value={window.then}
            onChange={(event) => replaced(place, { then: event.target.value as Window["then"] })}
          >
            {(["skip", "defer"] as const).map((then) => (
              <option key={then} value={then}>
                {text.thenText[then]}
              </option>
            ))}
          </SelectField>
          <IconButton
            icon="trash"
            label={text.remove(place + 1)}
            onClick={() => onChange(windows.filter((_, index) => index !== place))}
          />
        </div>
      ))}
      {error && <p className={styles.windowError}>{error}</p>}
      {windows.length < MOST_WINDOWS && (
        <Button icon="plus" onClick={() => onChange([...windows, NEW_WINDOW])}>
          {text.add}
        </Button>
      )}
    </fieldset>
  );
}
