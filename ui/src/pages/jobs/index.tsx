import { Page } from "../../parts/page";
import { Empty } from "../../parts/page-states";
import { words } from "../../words";

export default function JobsPage() {
  return (
    <Page title={words.jobs.title}>
      <Empty title={words.jobs.title} />
    </Page>
  );
}
