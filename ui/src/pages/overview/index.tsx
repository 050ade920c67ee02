import { Page } from "../../parts/page";
import { Empty } from "../../parts/page-states";
import { words } from "../../words";

export default function OverviewPage() {
  return (
    <Page title={words.overview.title}>
      <Empty title={words.overview.title} />
    </Page>
  );
}
