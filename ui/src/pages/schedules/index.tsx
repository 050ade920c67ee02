import { Page } from "../../parts/page";
import { Empty } from "../../parts/page-states";
import { words } from "../../words";

export default function SchedulesPage() {
  return (
    <Page title={words.schedules.title}>
      <Empty title={words.schedules.title} />
    </Page>
  );
}
