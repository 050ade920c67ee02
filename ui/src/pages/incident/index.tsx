import { Page } from "../../parts/page";
import { Empty } from "../../parts/page-states";
import { words } from "../../words";

export default function IncidentPage() {
  return (
    <Page title={words.incident.title}>
      <Empty title={words.incident.title} />
    </Page>
  );
}
