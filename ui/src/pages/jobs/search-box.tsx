import { useQuery } from "@tanstack/react-query";
import { useEffect, useId, useRef, useState } from "react";
import { flushSync } from "react-dom";
import { ApiProblem } from "../../api/problem";
import { searchQueries, type Suggestion } from "../../api/search";
import { useSettled } from "../../hooks/use-settled";
import { IconButton } from "../../parts/button";
import { classNames } from "../../parts/class-names";
import { Icon } from "../../parts/icon";
import { words } from "../../words";
import styles from "./jobs.module.css";
import { replaced } from "./search-terms";

interface SearchBoxProps {
  search: string;
  onSearch: (search: string) => void;
  /** What the API said of the last search. */
  error: Error | null;
  focus?: boolean;
}

/** The search with completion: arrows choose, Enter or Tab takes, Escape closes, Enter alone searches. */
export function SearchBox({ search, onSearch, error, focus = false }: SearchBoxProps) {
  const [text, setText] = useState(search);
  const [shownFor, setShownFor] = useState(search);
  const [open, setOpen] = useState(false);
  const [chosen, setChosen] = useState(-1);
  const [caret, setCaret] = useState(0);
  const input = useRef<HTMLInputElement>(null);
  const id = useId();
  if (shownFor !== search) {
    // A tab, a link or the back button changed the search.
    setShownFor(search);
    setText(search);
  }
  useEffect(() => {
    if (focus) input.current?.focus();
  }, [focus]);

  const offered = useSuggestions(text, caret, open);
  const take = (choice: OfferedText) => {
    const next = replaced(text, choice);
    // At once: a later caret would land amid what a quick typist has written by then.
    flushSync(() => {
      setText(next.search);
      setCaret(next.caret);
      setChosen(-1);
    });
    input.current?.setSelectionRange(next.caret, next.caret);
  };
  const press = (event: React.KeyboardEvent) => {
    const shown = open && offered.length > 0;
    const choice = offered[chosen];
    if (shown && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
      event.preventDefault();
      const step = event.key === "ArrowDown" ? 1 : -1;
      setChosen((chosen + step + offered.length + (chosen < 0 && step < 0 ? 1 : 0)) % offered.length);
    } else if (shown && choice !== undefined && (event.key === "Enter" || event.key === "Tab")) {
      event.preventDefault();
      take(choice);
    } else if (event.key === "Enter") {
      event.preventDefault();
      setOpen(false);
      onSearch(text.trim());
    } else if (event.key === "Escape") {
      if (open) setOpen(false);
      else input.current?.blur();
    } else if (event.key === "ArrowDown") setOpen(true);
  };
  const problem = error instanceof ApiProblem && error.code === "invalid-search" ? error : null;
  return (
    <form
      role="search"
      className={styles.search}
      onSubmit={(event) => {
        event.preventDefault();
        onSearch(text.trim());
      }}
    >
      <div className={classNames(styles.box, problem && styles.wrong)}>
        <Icon name="search" />
        <input
          ref={input}
          data-search
          type="text"
          role="combobox"
          aria-label={words.jobs.search}
          aria-expanded={open && offered.length > 0}
          aria-controls={`${id}-list`}
          aria-autocomplete="list"
          aria-activedescendant={chosen >= 0 ? `${id}-${chosen}` : undefined}
          aria-invalid={problem !== null}
          aria-describedby={problem ? `${id}-wrong` : undefined}
          autoComplete="off"
          autoCapitalize="off"
          spellCheck={false}
          placeholder={words.jobs.searchPlaceholder}
          value={text}
          onFocus={() => setOpen(true)}
          onBlur={() => setOpen(false)}
          onSelect={(event) => setCaret(event.currentTarget.selectionStart ?? 0)}
          onChange={(event) => {
            setText(event.target.value);
            setCaret(event.target.selectionStart ?? event.target.value.length);
            setChosen(-1);
            setOpen(true);
          }}
          onKeyDown={press}
        />
        {text !== "" && (
          <IconButton
            icon="close"
            label={words.jobs.clearSearch}
            onClick={() => {
              setText("");
              onSearch("");
              input.current?.focus();
            }}
          />
        )}
      </div>
      <div
        id={`${id}-list`}
        role="listbox"
        tabIndex={-1}
        aria-label={words.jobs.suggestions}
        hidden={!open || offered.length === 0}
        className={styles.suggestions}
      >
        {offered.map((choice, index) => (
          <div
            key={choice.text}
            id={`${id}-${index}`}
            role="option"
            tabIndex={-1}
            aria-selected={index === chosen}
            className={styles.suggestion}
            // The press must not take the focus from the field.
            onMouseDown={(event) => {
              event.preventDefault();
              take(choice);
            }}
          >
            {choice.label}
          </div>
        ))}
      </div>
      {problem && (
        <p id={`${id}-wrong`} role="alert" className={styles.problem}>
          {problem.message}
        </p>
      )}
    </form>
  );
}

interface OfferedText extends Suggestion {
  start: number;
  end: number;
}

/** Milliseconds without a key after which suggestions are asked for. */
const SETTLED = 120;

/** What may complete the word at the caret. Answers to an older text are left out: they would replace the wrong part. */
function useSuggestions(text: string, caret: number, open: boolean): readonly OfferedText[] {
  const asked = useSettled(`${caret} ${text}`, SETTLED);
  const query = useQuery({ ...searchQueries.suggest(text, caret), enabled: open && asked === `${caret} ${text}` });
  if (!query.data) return [];
  const { start, end, items } = query.data;
  return items.map((item) => ({ ...item, start, end }));
}
