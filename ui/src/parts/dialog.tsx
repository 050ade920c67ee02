import { type ReactNode, useEffect, useId, useLayoutEffect, useRef } from "react";
import { words } from "../words";
import { IconButton } from "./button";
import { classNames } from "./class-names";
import styles from "./dialog.module.css";

interface DialogProps {
  title: string;
  onClose: () => void;
  children: ReactNode;
  footer?: ReactNode;
  wide?: boolean;
}

/** The first field, else the button that leaves everything as it is: never the cross in the corner. */
const FIRST_FOCUS = ":is(input, textarea, select):not(:disabled), footer button";

/** A native modal dialog, shown as long as it is rendered: the browser keeps the focus inside and gives it back. */
export function Dialog({ title, onClose, children, footer, wide = false }: DialogProps) {
  const ref = useRef<HTMLDialogElement>(null);
  const titleId = useId();

  // Closed before it leaves the document: the browser gives the focus back only then.
  useLayoutEffect(() => {
    const dialog = ref.current;
    if (!dialog) return;
    if (!dialog.open) dialog.showModal();
    dialog.querySelector<HTMLElement>(FIRST_FOCUS)?.focus();
    return () => dialog.close();
  }, []);

  useEffect(() => {
    const dialog = ref.current;
    if (!dialog) return;
    const onCancel = (event: Event) => {
      event.preventDefault();
      onClose();
    };
    const onPress = (event: MouseEvent) => {
      if (event.target === dialog) onClose();
    };
    dialog.addEventListener("cancel", onCancel);
    dialog.addEventListener("mousedown", onPress);
    return () => {
      dialog.removeEventListener("cancel", onCancel);
      dialog.removeEventListener("mousedown", onPress);
    };
  }, [onClose]);

  return (
    <dialog ref={ref} aria-labelledby={titleId} className={classNames(styles.dialog, wide && styles.wide)}>
      <div className={styles.body}>
        <header className={styles.header}>
          <h2 id={titleId}>{title}</h2>
          <IconButton icon="close" label={words.close} onClick={onClose} />
        </header>
        <div className={styles.content}>{children}</div>
        {footer !== undefined && <footer className={styles.footer}>{footer}</footer>}
      </div>
    </dialog>
  );
}
