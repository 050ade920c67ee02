import { useQueryClient } from "@tanstack/react-query";
import { useId, useState } from "react";
import { useLocation } from "wouter";
import type { LaneLoad } from "../api/lanes";
import { useMayRead } from "../hooks/use-session";
import { useLive } from "../live/use-live";
import { classNames } from "../parts/class-names";
import { Dialog } from "../parts/dialog";
import { Icon, type IconName } from "../parts/icon";
import { NAVIGATION } from "../routes";
import { words } from "../words";
import styles from "./command-palette.module.css";
import { chooseTheme, THEMES } from "./theme";

interface Command {
  label: string;
  group: string;
  icon: IconName;
  run: () => void;
}

/** A public id: fourteen Crockford symbols, with or without its hyphens. */
const JOB_ID = /^[0-9A-HJKMNP-TV-Z]{4}-?[0-9A-HJKMNP-TV-Z]{4}-?[0-9A-HJKMNP-TV-Z]{4}-?[0-9A-Z*~$=]{1,3}$/i;
const MOST = 12;

const text = words.shell.palette;

function usePaletteCommands(onHelp: () => void): Command[] {
  const [, navigate] = useLocation();
  const mayRead = useMayRead();
  const live = useLive();
  const cache = useQueryClient();
  const lanes = cache.getQueryData<{ items: LaneLoad[] }>(["lanes", "list"])?.items ?? [];
  return [
    ...NAVIGATION.filter((entry) => !entry.needs || mayRead(entry.needs)).map((entry) => ({
      label: entry.label,
      group: text.pages,
      icon: entry.icon,
      run: () => navigate(entry.path),
    })),
    ...(mayRead("jobs:submit")
      ? [
          {
            label: words.shell.nav.newJob,
            group: text.pages,
            icon: "plus" as const,
            run: () => navigate("/jobs/new"),
          },
        ]
      : []),
    ...lanes.map((lane) => ({
      label: lane.name,
      group: words.shell.nav.lanes,
      icon: "lanes" as const,
      run: () => navigate(`/lanes/${encodeURIComponent(lane.name)}`),
    })),
    {
      label: live.status === "paused" ? text.resumeLive : text.pauseLive,
      group: text.orders,
      icon: live.status === "paused" ? "play" : "pause",
      run: live.status === "paused" ? live.resume : live.pause,
    },
    ...THEMES.map((theme) => ({
      label: text.theme(words.shell.theme[theme]),
      group: text.orders,
      icon: "sun" as const,
      run: () => chooseTheme(theme),
    })),
    { label: text.shortcuts, group: text.orders, icon: "keyboard", run: onHelp },
  ];
}

/** Goes to any page, job, lane or search, and gives the frame's orders, all from the keyboard. */
export function CommandPalette({ onClose, onHelp }: { onClose: () => void; onHelp: () => void }) {
  const [typed, setTyped] = useState("");
  const [chosen, setChosen] = useState(0);
  const [, navigate] = useLocation();
  const commands = usePaletteCommands(onHelp);
  const id = useId();

  const wanted = typed.trim().toLowerCase();
  const direct: Command[] = [];
  if (JOB_ID.test(typed.trim())) {
    const job = typed.trim().toUpperCase();
    direct.push({ label: text.openJob(job), group: "", icon: "right", run: () => navigate(`/jobs/${job}`) });
  }
  const matching = commands.filter(({ label, group }) => `${group} ${label}`.toLowerCase().includes(wanted));
  const search: Command[] = wanted
    ? [
        {
          label: text.search(typed.trim()),
          group: "",
          icon: "search",
          run: () => navigate(`/jobs?q=${encodeURIComponent(typed.trim())}`),
        },
      ]
    : [];
  const shown = [...direct, ...matching.slice(0, wanted ? MOST : commands.length), ...search];
  const at = Math.min(chosen, shown.length - 1);

  const run = (command: Command | undefined) => {
    if (!command) return;
    onClose();
    command.run();
  };
  const press = (event: React.KeyboardEvent) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step !== 0) {
      event.preventDefault();
      setChosen((at + step + shown.length) % shown.length);
    } else if (event.key === "Enter") {
      event.preventDefault();
      run(shown[at]);
    }
  };

  return (
    <Dialog title={text.label} onClose={onClose}>
      <input
        type="text"
        role="combobox"
        className={styles.input}
        aria-expanded="true"
        aria-controls={id}
        aria-activedescendant={shown.length > 0 ? `${id}-${at}` : undefined}
        aria-label={text.label}
        placeholder={text.placeholder}
        autoComplete="off"
        spellCheck={false}
        value={typed}
        onChange={(event) => {
          setTyped(event.target.value);
          setChosen(0);
        }}
        onKeyDown={press}
      />
      <div id={id} role="listbox" aria-label={text.label} className={styles.list}>
        {shown.map((command, index) => (
          // The keyboard stays in the field above, which names the chosen option.
          // eslint-disable-next-line jsx-a11y/click-events-have-key-events
          <div
            key={`${command.group}-${command.label}`}
            id={`${id}-${index}`}
            role="option"
            tabIndex={-1}
            aria-selected={index === at}
            ref={(element) => {
              if (index === at) element?.scrollIntoView({ block: "nearest" });
            }}
            className={classNames(styles.option, index === at && styles.chosen)}
            onClick={() => run(command)}
          >
            <Icon name={command.icon} />
            <span>{command.label}</span>
            <span className={styles.group}>{command.group}</span>
          </div>
        ))}
      </div>
      {shown.length === 0 && <p>{text.empty}</p>}
    </Dialog>
  );
}
