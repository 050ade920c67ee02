import type { Job, State } from "../../api/client";
import type { BulkAction } from "../../parts/bulk-order";
import { allowsOrder } from "../job/allows-order";

/** The jobs that a person has chosen: some by id, or all that match the search, loaded or not. */
export interface Selection {
  ids: ReadonlySet<string>;
  /** Every job that matches, of which `ids` are the loaded ones. */
  matching: boolean;
  /** Where the next range begins. */
  anchor: string | null;
}

export const NOTHING: Selection = { ids: new Set(), matching: false, anchor: null };

/** One more, or one less. A single change ends "all that match". */
export function toggled(selection: Selection, id: string): Selection {
  const ids = new Set(selection.ids);
  if (!ids.delete(id)) ids.add(id);
  return { ids, matching: false, anchor: id };
}

/** Everything from the anchor to this one, as the rows stand. */
export function extended(selection: Selection, id: string, rows: readonly string[]): Selection {
  const from = selection.anchor === null ? -1 : rows.indexOf(selection.anchor);
  const to = rows.indexOf(id);
  if (from < 0 || to < 0) return toggled(selection, id);
  const range = rows.slice(Math.min(from, to), Math.max(from, to) + 1);
  return { ids: new Set([...selection.ids, ...range]), matching: false, anchor: id };
}

/** All loaded rows, or none when all of them are chosen already. */
export function allLoaded(selection: Selection, rows: readonly string[]): Selection {
  const complete = rows.length > 0 && rows.every((id) => selection.ids.has(id));
  return complete ? NOTHING : { ids: new Set(rows), matching: false, anchor: null };
}

const ACTIONS: readonly BulkAction[] = ["approve", "reject", "retry", "priority", "cancel", "delete"];

/** The states of the selected jobs; null when jobs are chosen that are not loaded and may have any state. */
export function statesOf(
  selection: Selection,
  rows: readonly Pick<Job, "id" | "state">[],
  searched: State | null,
): ReadonlySet<State> | null {
  if (selection.matching) return searched && new Set([searched]);
  const found = rows.filter(({ id }) => selection.ids.has(id));
  return found.length < selection.ids.size ? null : new Set(found.map(({ state }) => state));
}

/** Orders that at least one job of these states can take. */
export function possibleOrders(states: ReadonlySet<State> | null): readonly BulkAction[] {
  return states ? ACTIONS.filter((action) => [...states].some((state) => allowsOrder(state, action))) : ACTIONS;
}
