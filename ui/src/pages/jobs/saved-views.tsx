import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useSearchParams } from "wouter";
import { createView, deleteView, type SavedView, searchQueries } from "../../api/search";
import { useOrder } from "../../hooks/use-order";
import { useMayOrder } from "../../hooks/use-session";
import { Button, IconButton } from "../../parts/button";
import { Dialog } from "../../parts/dialog";
import { CheckField, TextField } from "../../parts/field";
import { Icon } from "../../parts/icon";
import { words } from "../../words";
import styles from "./jobs.module.css";

const text = words.jobs.view;
const VIEWS = ["search", "views"];

/** Searches with their columns and order, kept on the server: one's own and shared ones. */
export function SavedViews() {
  const [open, setOpen] = useState(false);
  return (
    <>
      <Button tone="quiet" icon="star" onClick={() => setOpen(true)}>
        {text.views}
      </Button>
      {open && <ViewsDialog onClose={() => setOpen(false)} />}
    </>
  );
}

function ViewsDialog({ onClose }: { onClose: () => void }) {
  const [params, setParams] = useSearchParams();
  const query = useQuery(searchQueries.views());
  const mayOrder = useMayOrder();
  const remove = useOrder(deleteView, { done: (view) => text.removed(view.name), refresh: [VIEWS] });
  const take = (view: SavedView) => {
    const next = new URLSearchParams();
    if (view.query) next.set("q", view.query);
    if (view.columns.length > 0) next.set("columns", view.columns.join(","));
    if (view.sort !== "newest") next.set("sort", view.sort);
    setParams(next);
    onClose();
  };
  return (
    <Dialog title={text.views} onClose={onClose} footer={<Button onClick={onClose}>{words.close}</Button>}>
      {query.data?.items.length === 0 && <p className={styles.hint}>{text.none}</p>}
      <ul className={styles.views}>
        {query.data?.items.map((view) => (
          <li key={view.id}>
            <button type="button" className={styles.view} onClick={() => take(view)}>
              <strong>{view.name}</strong> <code>{view.query || words.jobs.all}</code>
            </button>
            {view.shared && <span className={styles.hint}>{text.sharedMark}</span>}
            {(view.own || mayOrder("jobs:edit")) && (
              <IconButton icon="trash" label={text.remove(view.name)} onClick={() => remove.mutate(view)} />
            )}
          </li>
        ))}
      </ul>
      <NewViewForm
        query={params.get("q") ?? ""}
        columns={(params.get("columns") ?? "").split(",").filter(Boolean)}
        sort={params.get("sort") === "oldest" ? "oldest" : "newest"}
      />
    </Dialog>
  );
}

interface NewViewFormProps {
  query: string;
  columns: string[];
  sort: "newest" | "oldest";
}

function NewViewForm({ query, columns, sort }: NewViewFormProps) {
  const mayOrder = useMayOrder();
  const [name, setName] = useState("");
  const [shared, setShared] = useState(false);
  const save = useOrder(createView, {
    done: (view) => text.saved(view.name),
    refresh: [VIEWS],
    toastError: false,
    onDone: () => setName(""),
  });
  return (
    <form
      className={styles.newView}
      onSubmit={(event) => {
        event.preventDefault();
        if (name.trim()) save.mutate({ name: name.trim(), query, columns, sort, shared });
      }}
    >
      <h3>
        <Icon name="plus" size={12} /> {text.save}
      </h3>
      <code className={styles.hint}>{query || words.jobs.all}</code>
      <TextField
        label={text.name}
        maxLength={100}
        value={name}
        error={save.error?.message}
        onChange={(event) => setName(event.target.value)}
      />
      {mayOrder("jobs:edit") && (
        <CheckField
          label={text.shared}
          hint={text.sharedHint}
          checked={shared}
          onChange={(event) => setShared(event.target.checked)}
        />
      )}
      <Button type="submit" disabled={!name.trim() || save.isPending}>
        {words.save}
      </Button>
    </form>
  );
}
