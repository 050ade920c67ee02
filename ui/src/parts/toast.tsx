import { createContext, type ReactNode, use, useCallback, useMemo, useRef, useState } from "react";
import { words } from "../words";
import { IconButton } from "./button";
import { classNames } from "./class-names";
import { Icon, type IconName } from "./icon";
import styles from "./toast.module.css";

export interface ToastMessage {
  tone: "good" | "danger" | "plain";
  text: string;
}

interface Toaster {
  show: (message: ToastMessage) => void;
}

const ToastContext = createContext<Toaster>({ show: () => undefined });
const ICONS: Record<ToastMessage["tone"], IconName> = { good: "check", danger: "warning", plain: "info" };
/** Milliseconds; an error stays until it is closed. */
const SHOWN_FOR = 5000;
const MOST = 4;

export function useToast(): Toaster {
  return use(ToastContext);
}

/** Short messages in the corner, read aloud as they come. */
export function ToastProvider({ children }: { children: ReactNode }) {
  const [messages, setMessages] = useState<(ToastMessage & { id: number })[]>([]);
  const next = useRef(0);
  const close = useCallback((id: number) => setMessages((all) => all.filter((each) => each.id !== id)), []);
  const toaster = useMemo<Toaster>(
    () => ({
      show: (message) => {
        const id = next.current++;
        setMessages((all) => [...all.slice(1 - MOST), { ...message, id }]);
        if (message.tone !== "danger") setTimeout(() => close(id), SHOWN_FOR);
      },
    }),
    [close],
  );
  return (
    <ToastContext value={toaster}>
      {children}
      <div className={styles.stack} role="status" aria-live="polite">
        {messages.map((message) => (
          <div key={message.id} className={classNames(styles.toast, styles[message.tone])}>
            <Icon name={ICONS[message.tone]} />
            <span>{message.text}</span>
            <IconButton icon="close" label={words.close} onClick={() => close(message.id)} />
          </div>
        ))}
      </div>
    </ToastContext>
  );
}
