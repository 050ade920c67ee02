import styles from "./icon.module.css";

/** Shapes on a grid of 16, drawn with lines of 1.5. */
const PATHS = {
  overview: "M2.5 8.5 5 8.5 6.5 4 9.5 12 11 8.5 13.5 8.5",
  jobs: "M5.5 4h8M5.5 8h8M5.5 12h8M2.5 4h.01M2.5 8h.01M2.5 12h.01",
  approvals: "M3 8.5 6.5 12 13 4.5",
  failures: "M8 2.5 14 13H2ZM8 6.5v3M8 11.4v.01",
  workflows: "M3 3.5h3v3H3ZM10 2.5h3v3h-3ZM10 10.5h3v3h-3ZM6 5h4M8 5v7h2",
  schedules: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12ZM8 4.8V8l2.3 1.6",
  lanes: "M2 3.5h7M11.5 3.5h2.5M2 8h3.5M8 8h6M2 12.5h9.5M13.9 12.5h.1",
  workers: "M2.5 3h11v4h-11ZM2.5 9h11v4h-11ZM5 5h.01M5 11h.01",
  limits: "M3 7h10v6.5H3ZM5 7V5a3 3 0 0 1 6 0v2",
  incident: "M2 13h12M4 10.5V8M8 10.5V3M12 10.5V6",
  system:
    "M3 4c0-1.2 2.2-2 5-2s5 .8 5 2-2.2 2-5 2-5-.8-5-2ZM3 4v8c0 1.2 2.2 2 5 2s5-.8 5-2V4M3 8c0 1.2 2.2 2 5 2s5-.8 5-2",
  plus: "M8 3v10M3 8h10",
  search: "M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10ZM10.7 10.7 14 14",
  menu: "M2.5 4h11M2.5 8h11M2.5 12h11",
  close: "M3.5 3.5 12.5 12.5M12.5 3.5 3.5 12.5",
  down: "M3.5 6 8 10.5 12.5 6",
  right: "M6 3.5 10.5 8 6 12.5",
  more: "M3.5 8h.01M8 8h.01M12.5 8h.01",
  copy: "M5.5 5.5h8v8h-8ZM10.5 5.5v-3h-8v8h3",
  check: "M3 8.5 6.5 12 13 4.5",
  user: "M8 8a2.8 2.8 0 1 0 0-5.6A2.8 2.8 0 0 0 8 8ZM2.5 14c.6-2.8 2.8-4 5.5-4s4.9 1.2 5.5 4",
  sun: "M8 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6ZM8 1.5v1.2M8 13.3v1.2M1.5 8h1.2M13.3 8h1.2M3.4 3.4l.9.9M11.7 11.7l.9.9M12.6 3.4l-.9.9M4.3 11.7l-.9.9",
  moon: "M13.5 9.5A5.8 5.8 0 0 1 6.5 2.5a5.8 5.8 0 1 0 7 7Z",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  play: "M5 3.2v9.6L12.5 8Z",
  stop: "M4 4h8v8H4Z",
  retry: "M13 8a5 5 0 1 1-1.6-3.7M13 2.5V5h-2.5",
  wait: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12ZM8 5v3l2 1.2",
  hand: "M4 13.5V5.5M7 8V3M10 8V3.5M13 9V5.5c0 5-1.5 8-5 8s-4-2-4-2",
  lock: "M3.5 7.5h9v6h-9ZM5.5 7.5V5a2.5 2.5 0 0 1 5 0v2.5",
  cross: "M4 4l8 8M12 4l-8 8",
  minus: "M3.5 8h9",
  half: "M8 14A6 6 0 1 0 8 2v12Z",
  late: "M4.5 2.5h7M4.5 13.5h7M5 2.5c0 3 6 3.5 6 5.5s-6 2.5-6 5.5M11 2.5c0 3-6 3.5-6 5.5s6 2.5 6 5.5",
  link: "M6.5 9.5 9.5 6.5M7 4.5 9 2.8a3 3 0 0 1 4.2 4.2L11.5 9M9 11.5l-2 1.7A3 3 0 0 1 2.8 9L4.5 7",
  columns: "M2.5 3h11v10h-11ZM6.2 3v10M9.8 3v10",
  fit: "M2.5 6V2.5H6M10 2.5h3.5V6M13.5 10v3.5H10M6 13.5H2.5V10",
  download: "M8 2.5v8M4.5 7.5 8 11l3.5-3.5M2.5 13.5h11",
  star: "M8 2l1.8 3.9 4.2.5-3.1 2.9.8 4.2L8 11.4l-3.7 2.1.8-4.2L2 6.4l4.2-.5Z",
  edit: "M3 13l.6-2.8L10.8 3l2.2 2.2-7.2 7.2Z",
  trash: "M3 4.5h10M6.5 4.5v-2h3v2M4.5 4.5l.5 9h6l.5-9",
  warning: "M8 2.5 14 13H2ZM8 6.5v3M8 11.4v.01",
  info: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12ZM8 7.3v3.5M8 5.2v.01",
  logout: "M6.5 2.5h-4v11h4M6.5 8h7M10.8 5.2 13.5 8l-2.7 2.8",
  keyboard: "M1.5 4h13v8h-13ZM4 6.5h.01M6.5 6.5h.01M9 6.5h.01M11.5 6.5h.01M5 9.5h6",
} as const;

export type IconName = keyof typeof PATHS;

/** Decoration beside a word: screen readers skip it. */
export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg className={styles.icon} viewBox="0 0 16 16" width={size} height={size} aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}
