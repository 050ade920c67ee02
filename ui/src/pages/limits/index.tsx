import { useUrlChoice, useUrlState } from "../../hooks/use-url-state";
import { TextField } from "../../parts/field";
import { Page } from "../../parts/page";
import { Tabs } from "../../parts/tabs";
import { words } from "../../words";
import { Gates } from "./gates";
import styles from "./limits.module.css";
import { Locks } from "./locks";
import { Rates } from "./rates";

const text = words.limits;
const TABS = ["gates", "rates", "locks"] as const;

export default function LimitsPage() {
  const [tab, setTab] = useUrlChoice("tab", TABS);
  const [prefix, setPrefix] = useUrlState("prefix");
  return (
    <Page title={text.title} subtitle={text.about}>
      <Tabs
        label={text.what}
        tabs={TABS.map((name) => ({ name, label: text.tabs[name] }))}
        chosen={tab}
        onChoose={setTab}
      >
        <div className={styles.content}>
          {tab !== "locks" && (
            <div className={styles.find}>
              <TextField
                label={text.find}
                type="search"
                data-search
                value={prefix}
                onChange={(event) => setPrefix(event.target.value, { replace: true })}
              />
            </div>
          )}
          {tab === "gates" && <Gates prefix={prefix} />}
          {tab === "rates" && <Rates prefix={prefix} />}
          {tab === "locks" && <Locks />}
        </div>
      </Tabs>
    </Page>
  );
}
