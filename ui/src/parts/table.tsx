import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { type ReactNode, useEffect, useLayoutEffect, useRef, useState } from "react";
import { useShortcuts } from "../hooks/use-shortcuts";
import { classNames } from "./class-names";
import styles from "./table.module.css";

export interface Column<Row> {
  key: string;
  title: string;
  /** The heading, where it is more than the title; null: the title is read aloud only. */
  heading?: ReactNode;
  cell: (row: Row) => ReactNode;
  /** A CSS width; columns without one share what is left. */
  width?: string;
  align?: "end";
  /** Leaves the column out on narrower screens. */
  hideBelow?: "phone" | "tablet" | "laptop";
  /** Leaves the column out on wider screens. */
  showBelow?: "laptop";
}

interface TableProps<Row> {
  label: string;
  rows: readonly Row[];
  columns: readonly Column<Row>[];
  rowKey: (row: Row) => string;
  /** Enter or a press on the row; links and buttons inside keep their own meaning. */
  onOpen?: (row: Row) => void;
  selected?: ReadonlySet<string>;
  /** x, or a press with Shift; `range` extends from the last one. */
  onSelect?: (row: Row, range: boolean) => void;
  /** Other keys on the row under the cursor, such as a for approve. */
  onKey?: (key: string, row: Row) => void;
  dense?: boolean;
  /** All rows there are, where not all are loaded. */
  total?: number;
  /** Called when the last loaded rows come near. */
  onEnd?: () => void;
}

/** Rows beyond this number are drawn only while they are near the screen. */
const VIRTUAL_ABOVE = 80;

/** A table of any length: native markup, a heading that stays, j and k to move, x to select, Enter to open. */
export function Table<Row>(props: TableProps<Row>) {
  const { label, rows, columns, rowKey, onOpen, onEnd, selected, dense = false } = props;
  const body = useRef<HTMLTableSectionElement>(null);
  const [cursor, setCursor] = useState<string | null>(null);
  // The cursor at once: keys that are pressed quickly come before the next draw.
  const place = useRef<string | null>(null);
  const [margin, setMargin] = useState(0);
  const virtual = rows.length > VIRTUAL_ABOVE;

  useLayoutEffect(() => {
    const top = body.current?.getBoundingClientRect().top ?? 0;
    setMargin(top + window.scrollY);
  }, [rows.length]);

  const virtualizer = useWindowVirtualizer({
    count: rows.length,
    enabled: virtual,
    estimateSize: () => (dense ? 28 : 34),
    overscan: 12,
    scrollMargin: margin,
    // Two rows of headings stay on top of the page.
    scrollPaddingStart: 90,
    getItemKey: (index) => {
      const row = rows[index];
      return row === undefined ? index : rowKey(row);
    },
  });
  const items = virtualizer.getVirtualItems();
  const first = virtual ? (items[0]?.index ?? 0) : 0;
  const last = virtual ? (items.at(-1)?.index ?? -1) : rows.length - 1;
  const above = virtual ? (items[0]?.start ?? margin) - margin : 0;
  const below = virtual ? virtualizer.getTotalSize() - ((items.at(-1)?.end ?? margin) - margin) : 0;

  useEffect(() => {
    if (onEnd && rows.length > 0 && last >= rows.length - 20) onEnd();
  }, [last, onEnd, rows.length]);

  const indexNow = () => rows.findIndex((row) => rowKey(row) === place.current);
  const put = (key: string) => {
    place.current = key;
    setCursor(key);
  };
  const moveTo = (next: number) => {
    const row = rows[Math.max(0, Math.min(rows.length - 1, next))];
    if (row === undefined) return;
    const key = rowKey(row);
    put(key);
    if (virtual) virtualizer.scrollToIndex(rows.indexOf(row), { align: "auto" });
    requestAnimationFrame(() => {
      const element = body.current?.querySelector<HTMLElement>(`tr[data-key="${CSS.escape(key)}"]`);
      element?.focus({ preventScroll: virtual });
    });
  };
  const at = (): Row | undefined => rows[indexNow()];

  useShortcuts({
    j: () => moveTo(indexNow() + 1),
    k: () => moveTo(Math.max(0, indexNow() - 1)),
    ArrowDown: (event) => focusedInside(body.current, event) && moveTo(indexNow() + 1),
    ArrowUp: (event) => focusedInside(body.current, event) && moveTo(indexNow() - 1),
    x: () => withRow(at(), (row) => props.onSelect?.(row, false)),
    X: () => withRow(at(), (row) => props.onSelect?.(row, true)),
    Enter: (event) => {
      // The row gets the focus with the next frame; a quicker Enter is still the page's own.
      if (event.target instanceof HTMLTableRowElement || event.target === document.body)
        withRow(at(), (row) => onOpen?.(row));
    },
    a: () => withRow(at(), (row) => props.onKey?.("a", row)),
    c: () => withRow(at(), (row) => props.onKey?.("c", row)),
    r: () => withRow(at(), (row) => props.onKey?.("r", row)),
  });

  useEffect(() => {
    const element = body.current;
    if (!element) return;
    const press = (event: MouseEvent) => {
      if (event.defaultPrevented || event.button !== 0) return;
      const target = event.target as HTMLElement;
      if (target.closest("a, button, input, select, label, summary")) return;
      if (getSelection()?.toString()) return;
      const key = target.closest<HTMLElement>("tr[data-key]")?.dataset.key;
      const row = rows.find((each) => rowKey(each) === key);
      if (row === undefined || key === undefined) return;
      put(key);
      if (event.shiftKey && props.onSelect) props.onSelect(row, true);
      else onOpen?.(row);
    };
    element.addEventListener("click", press);
    return () => element.removeEventListener("click", press);
  });

  return (
    <div className={styles.wrap}>
      <table
        className={classNames(styles.table, dense && styles.dense, onOpen && styles.opens)}
        aria-label={label}
        aria-rowcount={(props.total ?? rows.length) + 1}
      >
        <colgroup>
          {columns.map((column) => (
            <col key={column.key} className={hidden(column)} style={{ width: column.width ?? "auto" }} />
          ))}
        </colgroup>
        <thead>
          <tr aria-rowindex={1}>
            {columns.map((column) => (
              <th key={column.key} scope="col" className={cellClass(column)}>
                {column.heading === null ? (
                  <span className="visually-hidden">{column.title}</span>
                ) : (
                  (column.heading ?? column.title)
                )}
              </th>
            ))}
          </tr>
        </thead>
        <tbody ref={body}>
          {above > 0 && <Spacer height={above} />}
          {rows.slice(first, last + 1).map((row, offset) => {
            const key = rowKey(row);
            return (
              <tr
                key={key}
                ref={virtual ? virtualizer.measureElement : null}
                data-index={first + offset}
                data-key={key}
                tabIndex={-1}
                aria-rowindex={first + offset + 2}
                aria-selected={selected ? selected.has(key) : undefined}
                className={classNames(key === cursor && styles.cursor, selected?.has(key) && styles.selected)}
              >
                {columns.map((column) => (
                  <td key={column.key} className={cellClass(column)}>
                    {column.cell(row)}
                  </td>
                ))}
              </tr>
            );
          })}
          {below > 0 && <Spacer height={below} />}
        </tbody>
      </table>
    </div>
  );
}

/** Stands for the rows that are not drawn. */
/** One cell is enough: a span over hidden columns would give them width again. */
function Spacer({ height }: { height: number }) {
  return (
    <tr aria-hidden="true" className={styles.spacer}>
      <td style={{ height }} />
    </tr>
  );
}

function withRow<Row>(row: Row | undefined, act: (row: Row) => void): void {
  if (row !== undefined) act(row);
}

function focusedInside(body: HTMLElement | null, event: KeyboardEvent): boolean {
  const inside = event.target instanceof HTMLTableRowElement && (body?.contains(event.target) ?? false);
  if (inside) event.preventDefault();
  return inside;
}

function hidden<Row>(column: Column<Row>): string | undefined {
  return classNames(column.hideBelow && styles[column.hideBelow], column.showBelow && styles.narrow) || undefined;
}

function cellClass<Row>(column: Column<Row>): string {
  return classNames(column.align === "end" && styles.end, hidden(column));
}
