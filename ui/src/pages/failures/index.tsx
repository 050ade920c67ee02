import { Page } from "../../parts/page";
import { Empty } from "../../parts/page-states";
import { words } from "../../words";

export default function FailuresPage() {
  return (
    <Page title={words.failures.title}>
      <Empty title={words.failures.title} />
    </Page>
  );
}
