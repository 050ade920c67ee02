import type { ReactNode } from "react";
import { ApiProblem, Unreachable } from "../api/problem";
import { words } from "../words";
import { Button } from "./button";
import { Icon, type IconName } from "./icon";
import styles from "./page-states.module.css";

interface NoticeProps {
  icon: IconName;
  title: string;
  /** h1 where the notice stands in place of the whole page. */
  heading?: "h1" | "h2";
  children?: ReactNode;
  actions?: ReactNode;
}

/** What stands in place of content: nothing there, not allowed, went wrong. */
export function Notice({ icon, title, heading: Heading = "h2", children, actions }: NoticeProps) {
  return (
    <div className={styles.notice}>
      <Icon name={icon} size={24} />
      <Heading>{title}</Heading>
      {children !== undefined && <div className={styles.text}>{children}</div>}
      {actions !== undefined && <div className={styles.actions}>{actions}</div>}
    </div>
  );
}

export function Empty({ title, children, actions }: Omit<NoticeProps, "icon">) {
  return (
    <Notice icon="info" title={title} actions={actions}>
      {children}
    </Notice>
  );
}

/** Grey bars of the shape of what comes. Appears after a moment, so that quick answers do not flicker. */
export function Loading({ lines = 6 }: { lines?: number }) {
  return (
    <div className={styles.loading} role="status">
      <span className="visually-hidden">{words.loading}</span>
      {Array.from({ length: lines }, (_, line) => (
        <span key={line} className={styles.bar} />
      ))}
    </div>
  );
}

export function Forbidden({ permission }: { permission: string }) {
  return (
    <Notice icon="lock" title={words.errors.forbiddenTitle}>
      {words.errors.forbidden(permission)}
    </Notice>
  );
}

/** Says what went wrong, and offers another try where one can help. */
export function ErrorNotice({ error, onRetry }: { error: Error; onRetry?: () => void }) {
  if (error instanceof ApiProblem && error.status === 403 && error.permission)
    return <Forbidden permission={error.permission} />;
  if (error instanceof ApiProblem && error.status === 404)
    return (
      <Notice icon="search" title={error.problem?.title ?? words.errors.notFoundTitle}>
        {error.message}
      </Notice>
    );
  const request = error instanceof ApiProblem ? error.problem?.request_id : null;
  return (
    <div role="alert">
      <Notice
        icon="warning"
        title={words.errors.title}
        actions={onRetry && <Button onClick={onRetry}>{words.retry}</Button>}
      >
        <p>{error instanceof Unreachable ? words.errors.unreachable : error.message}</p>
        {request && <p className={styles.request}>{words.errors.requestId(request)}</p>}
      </Notice>
    </div>
  );
}

interface QueryLike<Data> {
  data: Data | undefined;
  error: Error | null;
  refetch: () => unknown;
}

interface LoadedProps<Data> {
  query: QueryLike<Data>;
  lines?: number;
  children: (data: Data) => ReactNode;
}

/** The data of a query, or its loading or error state. Data at hand stays on screen when a later read fails. */
export function Loaded<Data>({ query, lines, children }: LoadedProps<Data>) {
  if (query.data !== undefined) return <>{children(query.data)}</>;
  if (query.error) return <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />;
  return lines === undefined ? <Loading /> : <Loading lines={lines} />;
}
