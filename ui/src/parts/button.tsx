import type { ComponentProps, ReactNode } from "react";
import styles from "./button.module.css";
import { classNames } from "./class-names";
import { Icon, type IconName } from "./icon";

type ButtonProps = ComponentProps<"button"> & {
  tone?: "plain" | "primary" | "danger" | "quiet";
  icon?: IconName;
  /** An order is on its way: the button keeps its place and cannot be pressed again. */
  busy?: boolean;
  children: ReactNode;
};

export function Button({ tone = "plain", icon, busy = false, className, children, disabled, ...rest }: ButtonProps) {
  return (
    <button
      type="button"
      {...rest}
      disabled={disabled ?? busy}
      aria-busy={busy || undefined}
      className={classNames(styles.button, styles[tone], className)}
    >
      {icon && <Icon name={icon} />}
      {children}
    </button>
  );
}

type IconButtonProps = Omit<ComponentProps<"button">, "aria-label" | "children"> & { icon: IconName; label: string };

/** A button with a picture only; its label is read aloud and shown on hover. */
export function IconButton({ icon, label, className, ...rest }: IconButtonProps) {
  return (
    <button
      type="button"
      {...rest}
      aria-label={label}
      title={label}
      className={classNames(styles.iconButton, className)}
    >
      <Icon name={icon} />
    </button>
  );
}
