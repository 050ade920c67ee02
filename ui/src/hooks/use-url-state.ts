import { useCallback } from "react";
import { useSearchParams } from "wouter";

/** One value in the address. An empty value or the default leaves the address; `replace` keeps the history short. */
export function useUrlState(
  name: string,
  initial = "",
): readonly [string, (value: string, options?: { replace?: boolean }) => void] {
  const [params, setParams] = useSearchParams();
  const value = params.get(name) ?? initial;
  const set = useCallback(
    (next: string, options: { replace?: boolean } = {}) => {
      setParams(
        (before) => {
          const after = new URLSearchParams(before);
          if (next === initial || next === "") after.delete(name);
          else after.set(name, next);
          return after;
        },
        { replace: options.replace ?? false },
      );
    },
    [initial, name, setParams],
  );
  return [value, set];
}

/** One of a few values in the address; anything else in the address counts as the first. */
export function useUrlChoice<Choice extends string>(
  name: string,
  choices: readonly [Choice, ...Choice[]],
): readonly [Choice, (value: Choice) => void] {
  const [value, set] = useUrlState(name, choices[0]);
  const chosen = choices.find((choice) => choice === value) ?? choices[0];
  return [chosen, set];
}
