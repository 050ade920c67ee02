import { Page } from "../../parts/page";
import { Empty } from "../../parts/page-states";
import { words } from "../../words";

export default function NewJobPage() {
  return (
    <Page title={words.newJob.title}>
      <Empty title={words.newJob.title} />
    </Page>
  );
}
