import { useQuery } from "@tanstack/react-query";
import { Link } from "wouter";
import { scheduleQueries } from "../../api/schedules";
import { type Overview, statsQueries } from "../../api/stats";
import { workerQueries } from "../../api/workers";
import { useMayRead } from "../../hooks/use-session";
import { classNames } from "../../parts/class-names";
import { Icon } from "../../parts/icon";
import { Panel } from "../../parts/page";
import { words } from "../../words";
import { concernsOf } from "./concerns";
import styles from "./overview.module.css";

const text = words.overview;
const EVERY = { refetchInterval: 15_000 };

/** What a person should look at now, each with a link to it. */
export function Attention({ overview }: { overview: Overview }) {
  const mayRead = useMayRead();
  const failures = useQuery({ ...statsQueries.failures("1h"), ...EVERY });
  const slow = useQuery({ ...statsQueries.slow("10m", 5), ...EVERY });
  const status = useQuery({ ...workerQueries.status(), ...EVERY });
  const schedules = useQuery({ ...scheduleQueries.list(), ...EVERY, enabled: mayRead("schedules:view") });
  const concerns = concernsOf({
    overview,
    failures: failures.data?.items ?? [],
    slow: slow.data?.items ?? [],
    unserved: status.data?.unserved ?? [],
    schedules: schedules.data?.items ?? [],
  });
  return (
    <Panel title={text.attention}>
      {concerns.length === 0 ? (
        <p className={styles.calm}>
          <Icon name="check" /> {text.calm}
        </p>
      ) : (
        <ul className={styles.concerns}>
          {concerns.map((concern) => (
            <li key={concern.key} className={classNames(styles.concern, styles[concern.tone])}>
              <Icon name={concern.tone === "plain" ? "hand" : "warning"} />
              <div>
                <Link href={concern.href}>{concern.text}</Link>
                <p>{concern.why}</p>
              </div>
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}
