import { useState } from "react";
import { type JobsPage, readJobs } from "../../api/jobs";
import type { Job } from "../../api/client";
import { writeStored } from "../../hooks/use-stored";
import { useUrlState } from "../../hooks/use-url-state";
import { Button, IconButton } from "../../parts/button";
import { Dialog } from "../../parts/dialog";
import { CheckField } from "../../parts/field";
import { Icon } from "../../parts/icon";
import { Menu } from "../../parts/menu";
import { useToast } from "../../parts/toast";
import { words } from "../../words";
import { countText, numberText } from "../../words/format";
import { COLUMNS, columnsOf } from "./columns";
import { csvOf, jsonOf, saveFile } from "./export-file";
import styles from "./jobs.module.css";
import { SavedViews } from "./saved-views";

const text = words.jobs;
/** Jobs of one export at most. */
const MOST_EXPORTED = 10_000;

export type Density = "roomy" | "dense";

interface ToolbarProps {
  search: string;
  sort: "newest" | "oldest";
  found: JobsPage | undefined;
  /** Jobs that came since the list was read. */
  arrived: number;
  density: Density;
  onDensity: (density: Density) => void;
  onRefresh: () => void;
}

export function Toolbar({ search, sort, found, arrived, density, onDensity, onRefresh }: ToolbarProps) {
  const [, setSort] = useUrlState("sort", "newest");
  const [choosing, setChoosing] = useState(false);
  const exporting = useExport(search, sort);
  const other = density === "dense" ? "roomy" : "dense";
  return (
    <div className={styles.toolbar}>
      <span role="status" className={styles.found}>
        {found && (found.count.value === 1 && found.count.exact ? text.foundOne : text.found(countText(found.count)))}
      </span>
      {arrived > 0 && (
        <Button tone="quiet" icon="retry" title={text.arrivedHint} onClick={onRefresh}>
          {text.arrived(numberText(arrived))}
        </Button>
      )}
      <span className={styles.tools}>
        <SavedViews />
        <Menu
          label={`${text.sort}: ${sort === "newest" ? text.newest : text.oldest}`}
          items={[
            { label: text.newest, checked: sort === "newest", onSelect: () => setSort("newest") },
            { label: text.oldest, checked: sort === "oldest", onSelect: () => setSort("oldest") },
          ]}
        >
          {sort === "newest" ? text.newest : text.oldest} <Icon name="down" size={12} />
        </Menu>
        <Menu
          label={text.export}
          items={[
            { label: text.exportCsv, disabled: exporting.busy, onSelect: () => void exporting.run("csv") },
            { label: text.exportJson, disabled: exporting.busy, onSelect: () => void exporting.run("json") },
          ]}
        >
          <Icon name="download" /> {text.export}
        </Menu>
        <IconButton icon="columns" label={text.columns} onClick={() => setChoosing(true)} />
        <IconButton icon={density === "dense" ? "menu" : "jobs"} label={text[other]} onClick={() => onDensity(other)} />
      </span>
      {choosing && <ColumnChooser onClose={() => setChoosing(false)} />}
    </div>
  );
}

function ColumnChooser({ onClose }: { onClose: () => void }) {
  const [keys, setKeys] = useUrlState("columns");
  const shown = columnsOf(keys).map((column) => column.key);
  const toggle = (key: string) => {
    const next = COLUMNS.map((column) => column.key).filter((each) => shown.includes(each) !== (each === key));
    setKeys(next.join(","), { replace: true });
    writeStored("rowlock.columns", next.join(","));
  };
  return (
    <Dialog title={text.columns} onClose={onClose} footer={<Button onClick={onClose}>{words.close}</Button>}>
      <div className={styles.columns}>
        {COLUMNS.map((column) => (
          <CheckField
            key={column.key}
            label={column.title}
            checked={shown.includes(column.key)}
            disabled={shown.length === 1 && shown.includes(column.key)}
            onChange={() => toggle(column.key)}
          />
        ))}
      </div>
      <p className={styles.hint}>{text.columnsHint}</p>
    </Dialog>
  );
}

/** Reads every job of the search, up to a limit, and saves it as a file. */
function useExport(search: string, sort: "newest" | "oldest") {
  const toast = useToast();
  const [busy, setBusy] = useState(false);
  const run = async (format: "csv" | "json") => {
    setBusy(true);
    try {
      const jobs: Job[] = [];
      let cursor: string | null = null;
      do {
        const page: JobsPage = await readJobs({ q: search, sort, limit: 200 }, cursor);
        jobs.push(...page.items);
        cursor = page.next_cursor;
      } while (cursor !== null && jobs.length < MOST_EXPORTED);
      const kept = jobs.slice(0, MOST_EXPORTED);
      if (format === "csv") saveFile("jobs.csv", "text/csv", csvOf(kept));
      else saveFile("jobs.json", "application/json", jsonOf(kept));
      const count = numberText(kept.length);
      toast.show(
        cursor === null ? { tone: "good", text: text.exported(count) } : { tone: "plain", text: text.exportCut(count) },
      );
    } catch (error) {
      toast.show({ tone: "danger", text: `${words.errors.orderFailed}: ${(error as Error).message}` });
    } finally {
      setBusy(false);
    }
  };
  return { busy, run };
}
