import { useMayRead } from "../../hooks/use-session";
import { useUrlChoice } from "../../hooks/use-url-state";
import { Page } from "../../parts/page";
import { Forbidden } from "../../parts/page-states";
import { Tabs } from "../../parts/tabs";
import type { Permission } from "../../api/permissions";
import { words } from "../../words";
import { AuditTab } from "./audit-tab";
import { DatabaseTab } from "./database-tab";
import { HealthTab } from "./health-tab";
import { PermissionsTab } from "./permissions-tab";
import { RolesTab } from "./roles-tab";
import styles from "./system.module.css";
import { TokensTab } from "./tokens-tab";
import { WebhooksTab } from "./webhooks-tab";

const text = words.system;
const TABS = ["health", "database", "tokens", "roles", "webhooks", "audit", "permissions"] as const;
type TabName = (typeof TABS)[number];

const NEEDS: Partial<Record<TabName, Permission>> = {
  health: "workers:view",
  database: "workers:view",
  tokens: "tokens:manage",
  roles: "tokens:manage",
  webhooks: "webhooks:manage",
  audit: "audit:read",
};

export default function SystemPage() {
  const mayRead = useMayRead();
  const allowed = (name: TabName) => !NEEDS[name] || mayRead(NEEDS[name]);
  const [chosen, setTab] = useUrlChoice("tab", TABS);
  // People without the operators' tabs begin with their own permissions; a link to another tab says what it needs.
  const tab = chosen === "health" && !allowed("health") ? "permissions" : chosen;
  const needs = NEEDS[tab];
  return (
    <Page title={text.title} subtitle={text.about}>
      <Tabs
        label={text.what}
        tabs={TABS.filter((name) => allowed(name) || name === tab).map((name) => ({ name, label: text.tabs[name] }))}
        chosen={tab}
        onChoose={setTab}
      >
        <div className={styles.content}>
          {needs && !allowed(tab) ? <Forbidden permission={needs} /> : <TabContent tab={tab} />}
        </div>
      </Tabs>
    </Page>
  );
}

function TabContent({ tab }: { tab: TabName }) {
  switch (tab) {
    case "health":
      return <HealthTab />;
    case "database":
      return <DatabaseTab />;
    case "tokens":
      return <TokensTab />;
    case "roles":
      return <RolesTab />;
    case "webhooks":
      return <WebhooksTab />;
    case "audit":
      return <AuditTab />;
    case "permissions":
      return <PermissionsTab />;
  }
}
