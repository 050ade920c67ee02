import { Page } from "../../parts/page";
import { Empty } from "../../parts/page-states";
import { words } from "../../words";

export default function WorkflowPage() {
  return (
    <Page title={words.workflows.title}>
      <Empty title={words.workflows.title} />
    </Page>
  );
}
