import { Page } from "../../parts/page";
import { Empty } from "../../parts/page-states";
import { words } from "../../words";

export default function LanesPage() {
  return (
    <Page title={words.lanes.title}>
      <Empty title={words.lanes.title} />
    </Page>
  );
}
