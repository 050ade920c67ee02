import { Page } from "../../parts/page";
import { Empty } from "../../parts/page-states";
import { words } from "../../words";

export default function JobPage() {
  return (
    <Page title={words.job.title}>
      <Empty title={words.job.title} />
    </Page>
  );
}
