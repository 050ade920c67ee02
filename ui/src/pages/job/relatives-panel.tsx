import { useQuery } from "@tanstack/react-query";
import { Link } from "wouter";
import type { Job } from "../../api/client";
import { jobPartQueries, type Relative } from "../../api/jobs";
import { jobHref } from "../../api/searches";
import { Panel } from "../../parts/page";
import { Loaded } from "../../parts/page-states";
import { StateBadge } from "../../parts/state-badge";
import { words } from "../../words";
import styles from "./job.module.css";
import { byRelation } from "./relatives";

const text = words.job.related;
/** Milliseconds between two looks while the job is not over: steps and hooks begin and end beside it. */
const EVERY = 5000;

/** The jobs before and after this one: steps of its workflow, and hooks. */
export function RelativesPanel({ job }: { job: Job }) {
  const query = useQuery({ ...jobPartQueries.relatives(job.id), refetchInterval: job.finished_at ? false : EVERY });
  return (
    <Panel title={text.relatives}>
      <Loaded query={query} lines={3}>
        {({ items }) =>
          items.length === 0 ? (
            text.noRelatives
          ) : (
            <>
              {byRelation(items).map(([relation, some]) => (
                <section key={relation} className={styles.relatives}>
                  <h3>{relation === "parent" && job.state === "blocked" ? text.waitsFor : text.relations[relation]}</h3>
                  <ul className={styles.links}>
                    {some.map((each) => (
                      <li key={each.id}>
                        <RelativeJob relative={each} />
                      </li>
                    ))}
                  </ul>
                </section>
              ))}
            </>
          )
        }
      </Loaded>
    </Panel>
  );
}

function RelativeJob({ relative }: { relative: Relative }) {
  return (
    <>
      <Link href={jobHref(relative.id)}>{relative.step ?? relative.kind}</Link> <StateBadge state={relative.state} />
      {relative.met === false && <span className={styles.unmet}> {text.unmet}</span>}
    </>
  );
}
