import { Page } from "../../parts/page";
import { Empty } from "../../parts/page-states";
import { words } from "../../words";

export default function LimitsPage() {
  return (
    <Page title={words.limits.title}>
      <Empty title={words.limits.title} />
    </Page>
  );
}
