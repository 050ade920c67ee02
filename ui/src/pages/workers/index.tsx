import { Page } from "../../parts/page";
import { Empty } from "../../parts/page-states";
import { words } from "../../words";

export default function WorkersPage() {
  return (
    <Page title={words.workers.title}>
      <Empty title={words.workers.title} />
    </Page>
  );
}
