import { Page } from "../../parts/page";
import { Empty } from "../../parts/page-states";
import { words } from "../../words";

export default function SystemPage() {
  return (
    <Page title={words.system.title}>
      <Empty title={words.system.title} />
    </Page>
  );
}
