import { useQuery } from "@tanstack/react-query";
import { type Explanation, jobQueries } from "../../api/jobs";
import { Icon } from "../../parts/icon";
import { Panel } from "../../parts/page";
import { Loaded } from "../../parts/page-states";
import { useNow } from "../../hooks/use-now";
import { words } from "../../words";
import { countText, durationText } from "../../words/format";
import styles from "./job.module.css";
import { whyText } from "./why-text";

/** How many jobs come first, and about when this one starts. */
function Position({ position }: { position: NonNullable<Explanation["position"]> }) {
  const { before, start_in } = position;
  const text = words.job.why.position;
  return (
    <p title={text.hint}>
      {before.value === 0 ? text.next : text.before(countText(before), before.exact && before.value === 1)}{" "}
      {start_in !== null && text.startIn(durationText(start_in))}
    </p>
  );
}

/** Why a waiting job does not run: the most decisive reason, and the others that hold too. */
export function WhyPanel({ id }: { id: string }) {
  const now = useNow();
  const query = useQuery({ ...jobQueries.explain(id), refetchInterval: 5000 });
  return (
    <Panel title={words.job.why.title}>
      <Loaded query={query} lines={2}>
        {(explanation) => {
          const [first, ...others] = explanation.reasons;
          return (
            <div className={styles.why}>
              <p className={styles.verdict}>
                <Icon name="wait" /> <span>{first ? whyText(first, now) : explanation.verdict}</span>
              </p>
              {explanation.position && <Position position={explanation.position} />}
              {others.length > 0 && (
                <>
                  <h3>{words.job.why.more}</h3>
                  <ul className={styles.reasons}>
                    {others.map((reason) => (
                      <li key={reason.code + reason.text}>{whyText(reason, now)}</li>
                    ))}
                  </ul>
                </>
              )}
            </div>
          );
        }}
      </Loaded>
    </Panel>
  );
}
