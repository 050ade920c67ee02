import { useFeatures, useMe } from "../../hooks/use-session";
import { Facts, Panel } from "../../parts/page";
import { words } from "../../words";
import styles from "./system.module.css";

const text = words.system;

/** Who the caller is and what the API allows. */
export function PermissionsTab() {
  const me = useMe();
  const features = useFeatures();
  if (!me) return null;
  return (
    <>
      <Panel title={text.me}>
        <Facts
          facts={[
            [text.display, me.display],
            [text.subject, me.subject],
            [text.kindOf, me.kind],
            [text.tenant, me.tenant ?? words.none],
            [text.roles, me.roles.join(", ") || text.noRoles],
          ]}
        />
      </Panel>
      <Panel title={text.held}>
        <p>{text.heldAbout}</p>
        {features?.read_only && <p>{text.readOnly}</p>}
        <ul className={styles.permissions}>
          {[...me.permissions].sort().map((permission) => (
            <li key={permission}>
              <code>{permission}</code>
            </li>
          ))}
        </ul>
      </Panel>
    </>
  );
}
