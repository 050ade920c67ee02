import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense, useId, useState } from "react";
import { useLocation } from "wouter";
import { laneQueries } from "../api/lanes";
import { useMayOrder, useMayRead } from "../hooks/use-session";
import { useLive } from "../live/use-live";
import { classNames } from "../parts/class-names";
import { Dialog } from "../parts/dialog";
import { Icon, type IconName } from "../parts/icon";
import { NAVIGATION } from "../routes";
import { words } from "../words";
import styles from "./command-palette.module.css";
import { fitsWords } from "./fits-words";
import type { ChosenOrder } from "./palette-order";
import { chooseTheme, THEMES } from "./theme";

interface Command {
  label: string;
  group: string;
  icon: IconName;
  run: () => void;
  /** It has a question of its own, for which the palette stays. */
  asks?: boolean;
}

const PaletteOrder = lazy(() => import("./palette-order"));

/** A public id: fourteen Crockford symbols, with or without its hyphens. */
const JOB_ID = /^[0-9A-HJKMNP-TV-Z]{4}-?[0-9A-HJKMNP-TV-Z]{4}-?[0-9A-HJKMNP-TV-Z]{4}-?[0-9A-Z*~$=]{1,3}$/i;
const MOST = 12;

const text = words.shell.palette;

/** What can be ordered from any page: lanes paused or resumed, and failed jobs run again. */
function useOrderCommands(ask: (order: ChosenOrder) => void): Command[] {
  const mayRead = useMayRead();
  const mayOrder = useMayOrder();
  const lanes = useQuery({ ...laneQueries.list(), enabled: mayRead("workers:view") }).data?.items ?? [];
  const common = { group: text.orders, asks: true } as const;
  return [
    ...(mayOrder("jobs:retry")
      ? [
          {
            ...common,
            label: text.retryFailed,
            icon: "retry" as const,
            run: () => ask({ what: "retry-failed" }),
          },
        ]
      : []),
    ...lanes
      .filter((lane) => mayOrder("workers:manage", { lane: lane.name }))
      .map((lane) => ({
        ...common,
        label: (lane.enabled ? text.pauseLane : text.resumeLane)(lane.name),
        icon: lane.enabled ? ("pause" as const) : ("play" as const),
        run: () => ask({ what: "lane", lane, order: lane.enabled ? "pause" : "resume" }),
      })),
  ];
}

function usePaletteCommands(onHelp: () => void, ask: (order: ChosenOrder) => void): Command[] {
  const [, navigate] = useLocation();
  const mayRead = useMayRead();
  const live = useLive();
  const orders = useOrderCommands(ask);
  const lanes = useQuery({ ...laneQueries.list(), enabled: mayRead("workers:view") }).data?.items ?? [];
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
    ...orders,
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
  const [asked, setAsked] = useState<ChosenOrder | null>(null);
  const commands = usePaletteCommands(onHelp, setAsked);
  const id = useId();

  const wanted = typed.trim();
  const direct: Command[] = [];
  if (JOB_ID.test(typed.trim())) {
    const job = typed.trim().toUpperCase();
    direct.push({ label: text.openJob(job), group: "", icon: "right", run: () => navigate(`/jobs/${job}`) });
  }
  const matching = commands.filter(({ label, group }) => fitsWords(`${group} ${label}`, wanted));
  const search: Command[] = wanted
    ? [
        {
          label: text.search(wanted),
          group: "",
          icon: "search",
          run: () => navigate(`/jobs?q=${encodeURIComponent(wanted)}`),
        },
      ]
    : [];
  const shown = [...direct, ...matching.slice(0, wanted ? MOST : commands.length), ...search];
  const at = Math.min(chosen, shown.length - 1);

  const run = (command: Command | undefined) => {
    if (!command) return;
    if (!command.asks) onClose();
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

  if (asked)
    return (
      <Suspense fallback={null}>
        <PaletteOrder chosen={asked} onClose={onClose} />
      </Suspense>
    );
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
