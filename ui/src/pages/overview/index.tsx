import { useQuery } from "@tanstack/react-query";
import { statsQueries } from "../../api/stats";
import { Page } from "../../parts/page";
import { Loaded } from "../../parts/page-states";
import { words } from "../../words";
import { Attention } from "./attention";
import { OverviewCharts } from "./charts";
import { HealthStrip } from "./health-strip";
import { LaneBars } from "./lane-bars";
import styles from "./overview.module.css";

/** Is all well, and if not, where to look. The live feed renews its numbers every five seconds. */
export default function OverviewPage() {
  const overview = useQuery(statsQueries.overview("1h"));
  return (
    <Page title={words.overview.title}>
      <Loaded query={overview}>
        {(data) => (
          <>
            <HealthStrip overview={data} />
            <div className={styles.columns}>
              <Attention overview={data} />
              <LaneBars lanes={data.lanes} />
            </div>
            <OverviewCharts />
          </>
        )}
      </Loaded>
    </Page>
  );
}
