import { useCallback, useState } from "react";

/** A value in the browser's storage, such as the density of tables: a matter of taste, not of the page's address. */
export function useStored<Value extends string>(
  name: string,
  choices: readonly [Value, ...Value[]],
): readonly [Value, (value: Value) => void] {
  const key = `rowlock.${name}`;
  const [value, setValue] = useState<Value>(() => choices.find((choice) => choice === readStored(key)) ?? choices[0]);
  const store = useCallback(
    (next: Value) => {
      setValue(next);
      writeStored(key, next);
    },
    [key],
  );
  return [value, store];
}

/** Storage may be forbidden, as in a frame of another site: then nothing is remembered. */
export function readStored(key: string): string | null {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

export function writeStored(key: string, value: string): void {
  try {
    localStorage.setItem(key, value);
  } catch {
    // Nothing to do: the value holds until the page is closed.
  }
}
