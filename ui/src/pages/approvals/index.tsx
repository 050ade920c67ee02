import { Page } from "../../parts/page";
import { Empty } from "../../parts/page-states";
import { words } from "../../words";

export default function ApprovalsPage() {
  return (
    <Page title={words.approvals.title}>
      <Empty title={words.approvals.title} />
    </Page>
  );
}
